rule fetch:
    input:
        spec=f"{R}/specs/fetch/{{dataset}}.json",
        code=lambda w: flow.code(
            "fetch", datasets=flow.plan.spec(f"fetch/{w.dataset}")["module"]
        ),
    output:
        "data/{dataset}.safetensors",
    log:
        "logs/fetch/{dataset}.log",
    resources:
        mem_mb=2000,
    message:
        "fetch {wildcards.dataset}"
    shell:
        "python -m leakbench fetch --spec {input.spec:q} --out {output:q} 2> {log:q}"
