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
    # A job goes before those that it waits for where both could start, because Snakemake looks at all jobs that are ready
    # whenever it starts one. Figures have -1, capture 0, attack 1, what follows it 2. What many wait for or takes long
    # comes first:
    # train 3, train_study 4, fetch 5.
    priority: 5
    # The nodes of a cluster may have no network.
    localrule: True
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 60,
    message:
        "fetch {wildcards.dataset}"
    shell:
        "python -m leakbench fetch --spec {input.spec:q} --out {output.data:q} --digest {output.digest:q} 2> {log:q}"
