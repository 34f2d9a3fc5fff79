rule train:
    input:
        spec=f"{R}/specs/train/{{dataset}}/{{victim}}/{{seed}}.json",
        data=ancient("data/{dataset}.safetensors"),
        digest="data/digests/{dataset}.sha256",
        further=ancient(lambda w: flow.weights("/".join(w))),
        digests=lambda w: flow.digests(flow.weights("/".join(w))),
        code=lambda w: flow.stamp(
            flow.code_for("train", f"train/{w.dataset}/{w.victim}/{w.seed}")
        ),
    output:
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        record=f"{R}/records/train/{{dataset}}/{{victim}}/{{seed}}.json",
    log:
        f"{LOGS}/train/{{dataset}}/{{victim}}/{{seed}}.log",
    priority: 3
    resources:
        mem_mb=lambda w, threads, attempt: flow.needs("train", "/".join(w)).megabytes(
            threads, attempt
        ),
        runtime=lambda w, threads, attempt: flow.needs("train", "/".join(w)).minutes(
            threads, attempt
        ),
    params:
        further=lambda w, input: (
            f" --further '{input.further}'" if input.further else ""
        ),
    message:
        "train victim {wildcards.victim} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -m leakbench train --spec {input.spec:q} --data {input.data:q}{params.further}"
        " --out {output.victim:q} --record {output.record:q} 2> {log:q}"


rule train_generator:
    input:
        spec=f"{R}/specs/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.json",
        data=ancient(lambda w: flow.auxiliary("/".join(w))),
        further=ancient(lambda w: flow.private("/".join(w))),
        digest=lambda w: flow.digests([flow.auxiliary("/".join(w))]),
        digests=lambda w: flow.digests(flow.private("/".join(w))),
        victim=lambda w: flow.served("/".join(w)),
        code=lambda w: flow.stamp(flow.code_for("train", "generator/" + "/".join(w))),
    output:
        generator=f"{R}/generators/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.safetensors",
        record=f"{R}/records/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.json",
    log:
        f"{LOGS}/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.log",
    priority: 3
    resources:
        mem_mb=lambda w, threads, attempt: flow.needs(
            "generator", "/".join(w)
        ).megabytes(threads, attempt),
        runtime=lambda w, threads, attempt: flow.needs(
            "generator", "/".join(w)
        ).minutes(threads, attempt),
    params:
        victim=lambda w, input: f"--victim '{input.victim}'" if input.victim else "",
    message:
        "train generator {wildcards.generator} for victim {wildcards.victim} on {wildcards.dataset}"
    shell:
        "python -m leakbench train --spec {input.spec:q} --data {input.data:q} --further {input.further:q} {params.victim}"
        " --out {output.generator:q} --record {output.record:q} 2> {log:q}"


rule train_study:
    input:
        spec=f"{R}/specs/study/{{dataset}}/{{victim}}/{{training}}/{{defence}}/{{seed}}.json",
        data=ancient("data/{dataset}.safetensors"),
        digest="data/digests/{dataset}.sha256",
        further=ancient(lambda w: flow.further("/".join(w))),
        digests=lambda w: flow.digests(flow.further("/".join(w))),
        code=lambda w: flow.stamp(flow.code_for("train", "study/" + "/".join(w))),
    output:
        study=f"{R}/studies/{{dataset}}/{{victim}}/{{training}}/{{defence}}/{{seed}}.parquet",
        record=f"{R}/records/study/{{dataset}}/{{victim}}/{{training}}/{{defence}}/{{seed}}.json",
    log:
        f"{LOGS}/study/{{dataset}}/{{victim}}/{{training}}/{{defence}}/{{seed}}.log",
    # These are the longest jobs of a run. If one of them started last, the whole run would wait for it.
    priority: 4
    resources:
        mem_mb=lambda w, threads, attempt: flow.needs("study", "/".join(w)).megabytes(
            threads, attempt
        ),
        runtime=lambda w, threads, attempt: flow.needs("study", "/".join(w)).minutes(
            threads, attempt
        ),
        gpu=int(DEVICE != "cpu"),
    params:
        device=DEVICE,
    message:
        "train {wildcards.victim} on {wildcards.dataset} as {wildcards.training}, defence {wildcards.defence}"
    shell:
        "python -m leakbench train --spec {input.spec:q} --data {input.data:q} --further {input.further:q}"
        " --device {params.device} --out {output.study:q} --record {output.record:q} 2> {log:q}"
