rule fetch:
    input:
        spec="data/specs/{dataset}.json",
        code=lambda w: flow.stamp(flow.fetch_code(w.dataset), fetched=True),
    output:
        "data/{dataset}.safetensors",
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
        "python -m leakbench fetch --spec {input.spec:q} --out {output:q} 2> {log:q}"
