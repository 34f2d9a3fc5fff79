rule fetch:
    input:
        spec="data/specs/{dataset}.json",
        code=lambda w: flow.stamp(flow.fetch_code(w.dataset), fetched=True),
    output:
        data="data/{dataset}.safetensors",
        # What the jobs that read the data depend on: Snakemake reads every input again for each output.
        digest="data/digests/{dataset}.sha256",
    log:
        "logs/fetch/{dataset}.log",
    # Before all else: what the longest jobs wait for (train_study) must not wait itself.
    priority: 2
    # The nodes of a cluster may have no network.
    localrule: True
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 60,
    message:
        "fetch {wildcards.dataset}"
    shell:
        "python -m leakbench fetch --spec {input.spec:q} --out {output.data:q} --digest {output.digest:q} 2> {log:q}"
