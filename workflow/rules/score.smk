rule score:
    input:
        guesses=f"{R}/guesses/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.safetensors",
        truth=f"{R}/truth/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        data="data/{dataset}.safetensors",
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        spec=f"{R}/specs/score/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.json",
        attack_record=f"{R}/records/attack/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.json",
        backbones=lambda w: flow.backbones("/".join(w)),
        judges=lambda w: flow.judges("/".join(w)),
        code=lambda w: flow.score_code("/".join(w)),
    output:
        f"{R}/scores/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.parquet",
    log:
        f"logs/{SCALE}/score/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.log",
    resources:
        mem_mb=3000,
    params:
        backbones=lambda w, input: (
            f"--backbones '{input.backbones}'" if input.backbones else ""
        ),
    message:
        "score {wildcards.attack} on {wildcards.federation} of {wildcards.victim}, {wildcards.dataset}"
    shell:
        "python -m leakbench score --guesses {input.guesses:q} --truth {input.truth:q} --data {input.data:q}"
        " --victim {input.victim:q} --spec {input.spec:q} --attack-record {input.attack_record:q}"
        " {params.backbones} --judges {input.judges:q} --out {output:q} 2> {log:q}"
