rule capture:
    input:
        spec=f"{R}/specs/capture/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.json",
        data=ancient("data/{dataset}.safetensors"),
        digest="data/digests/{dataset}.sha256",
        victim=f"{R}/victims/{{dataset}}/{{victim}}/{{seed}}.safetensors",
        code=lambda w: flow.stamp(flow.code_for("capture", "capture/" + "/".join(w))),
    output:
        capture=f"{R}/captures/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        oracle=f"{R}/oracle/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        truth=f"{R}/truth/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        record=f"{R}/records/capture/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.json",
    log:
        f"{LOGS}/capture/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.log",
    wildcard_constraints:
        federation=flow.bulky(keep=True),
    resources:
        mem_mb=lambda w, threads, attempt: flow.needs(
            "capture", "/".join(w)
        ).megabytes(threads, attempt),
        runtime=lambda w, threads, attempt: flow.needs("capture", "/".join(w)).minutes(
            threads, attempt
        ),
    message:
        "capture {wildcards.federation} of {wildcards.victim} on {wildcards.dataset}, defence {wildcards.defence}"
    shell:
        "python -m leakbench capture --spec {input.spec:q} --data {input.data:q} --victim {input.victim:q}"
        " --out {output.capture:q} --oracle {output.oracle:q} --truth {output.truth:q} --record {output.record:q} 2> {log:q}"


# Federations with `keep: false` share more bytes than is worth keeping. They are cheap to play again, and deleted once used.
use rule capture as capture_bulk with:
    output:
        capture=temp(
            f"{R}/captures/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors"
        ),
        oracle=f"{R}/oracle/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        truth=f"{R}/truth/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.safetensors",
        record=f"{R}/records/capture/{{dataset}}/{{victim}}/{{federation}}/{{defence}}/{{seed}}.json",
    wildcard_constraints:
        federation=flow.bulky(keep=False),
