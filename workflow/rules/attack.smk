rule attack:
    input:
        capture=f"{R}/captures/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        spec=f"{R}/specs/attack/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.json",
        generator=lambda w: flow.generator("/".join(w)),
        labels=lambda w: flow.oracle("/".join(w)),
        code=lambda w: flow.stamp(flow.attack_code("/".join(w))),
    output:
        guesses=f"{R}/guesses/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.safetensors",
        record=f"{R}/records/attack/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.json",
    log:
        f"{LOGS}/attack/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.log",
    wildcard_constraints:
        federation=flow.bulky(keep=True),
    priority: 1
    threads: 1
    resources:
        mem_mb=lambda w, threads, attempt: flow.needs("attack", "/".join(w)).megabytes(
            threads, attempt
        ),
        runtime=lambda w, threads, attempt: flow.needs("attack", "/".join(w)).minutes(
            threads, attempt
        ),
        gpu=int(DEVICE != "cpu"),
    params:
        generator=lambda w, input: (
            f"--generator '{input.generator}'" if input.generator else ""
        ),
        labels=lambda w, input: f"--labels '{input.labels}'" if input.labels else "",
        device=DEVICE,
    message:
        "attack {wildcards.federation} of {wildcards.victim} on {wildcards.dataset} with {wildcards.attack}"
    shell:
        "python -m leakbench attack --capture {input.capture:q} --spec {input.spec:q} {params.generator} {params.labels}"
        " --workers {threads} --device {params.device}"
        " --out {output.guesses:q} --record {output.record:q} 2> {log:q}"


use rule attack as attack_bulk with:
    output:
        guesses=temp(
            f"{R}/guesses/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.safetensors"
        ),
        record=f"{R}/records/attack/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{attack}}/{{seed}}.json",
    wildcard_constraints:
        federation=flow.bulky(keep=False),
