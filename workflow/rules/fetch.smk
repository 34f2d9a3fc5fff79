rule fetch:
    input:
        spec="data/specs/{dataset}.json",
        code=lambda w: flow.stamp(flow.fetch_code(w.dataset), fetched=True),
    output:
        data="data/{dataset}.safetensors",
        # Jobs that read the data depend on the digest, because Snakemake reads every input again for each output.
        digest="data/digests/{dataset}.sha256",
    log:
        "logs/fetch/{dataset}.log",
    # Where a job and one of an earlier step could both start, the later step goes first. Few jobs are then ready at a time;
    # whenever Snakemake starts a job, it looks at all jobs that are ready. Figures have -1, capture 0, attack 1, and the
    # jobs after an attack 2. Jobs that take long, or for which many others wait, come first:
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
        "python -m leakbench fetch --optional --spec {input.spec:q} --out {output.data:q} --digest {output.digest:q} 2> {log:q}"
