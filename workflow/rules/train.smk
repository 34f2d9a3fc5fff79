rule train:
    input:
        spec=f"{R}/specs/train/{{dataset}}/{{victim}}/{{seed}}.json",
        data="data/{dataset}.safetensors",
        code=lambda w: flow.train_code(f"train/{w.dataset}/{w.victim}/{w.seed}"),
    output:
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        record=f"{R}/records/train/{{dataset}}/{{victim}}/{{seed}}.json",
    log:
        f"logs/{SCALE}/train/{{dataset}}/{{victim}}/{{seed}}.log",
    resources:
        mem_mb=3000,
    message:
        "train victim {wildcards.victim} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python -m leakbench train --spec {input.spec:q} --data {input.data:q}"
        " --out {output.victim:q} --record {output.record:q} 2> {log:q}"


rule train_generator:
    input:
        spec=f"{R}/specs/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.json",
        data=lambda w: flow.auxiliary(f"{w.dataset}/{w.victim}/{w.generator}/{w.seed}"),
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        code=lambda w: flow.train_code(
            f"generator/{w.dataset}/{w.victim}/{w.generator}/{w.seed}"
        ),
    output:
        generator=f"{R}/generators/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.safetensors",
        record=f"{R}/records/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.json",
    log:
        f"logs/{SCALE}/generator/{{dataset}}/{{victim}}/{{generator}}/{{seed}}.log",
    resources:
        mem_mb=3000,
    message:
        "train generator {wildcards.generator} against victim {wildcards.victim} on {wildcards.dataset}"
    shell:
        "python -m leakbench train --spec {input.spec:q} --data {input.data:q} --victim {input.victim:q}"
        " --out {output.generator:q} --record {output.record:q} 2> {log:q}"
