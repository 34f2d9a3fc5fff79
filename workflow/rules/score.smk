rule score:
    input:
        guesses=lambda w: flow.attacked("guesses", "safetensors", "/".join(w)),
        attack_records=lambda w: flow.attacked("records/attack", "json", "/".join(w)),
        truth=f"{R}/truth/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        data=ancient("data/{dataset}.safetensors"),
        digest="data/digests/{dataset}.sha256",
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        spec=f"{R}/specs/score/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.json",
        played=f"{R}/specs/capture/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.json",
        backbones=ancient(lambda w: flow.backbones("/".join(w))),
        digests=lambda w: flow.digests(flow.backbones("/".join(w))),
        judges=lambda w: flow.judges("/".join(w)),
        code=lambda w: flow.stamp(flow.score_code("/".join(w))),
    output:
        f"{R}/scores/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.parquet",
    log:
        f"{LOGS}/score/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.log",
    priority: 2
    resources:
        mem_mb=lambda w, attempt: attempt * 3000,
        runtime=lambda w, attempt: attempt * 60,
    params:
        backbones=lambda w, input: (
            f"--backbones '{input.backbones}'" if input.backbones else ""
        ),
    message:
        "score {wildcards.federation} of {wildcards.victim} on {wildcards.dataset}, defence {wildcards.defence}"
    shell:
        "python -m leakbench score --guesses {input.guesses:q} --attack-records {input.attack_records:q}"
        " --truth {input.truth:q} --data {input.data:q} --victim {input.victim:q} --spec {input.spec:q}"
        " --played {input.played:q} {params.backbones} --judges {input.judges:q} --out {output:q} 2> {log:q}"
