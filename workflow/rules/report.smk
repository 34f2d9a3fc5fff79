rule report:
    input:
        scorecard=f"{R}/scorecard.csv",
        seeds=f"{R}/seeds.csv",
        verified=f"{R}/verified.json",
        tables=flow.each("tables", "csv"),
        exhibits=flow.each("exhibits", "safetensors"),
        figures=flow.each("figures", "png"),
        specs=[
            f"{R}/specs/figure/{name}.json" for name in sorted(flow.plan.experiments)
        ],
        catalogue=f"{R}/specs/scorecard/catalogue.json",
        papers=flow.published(),
        found=flow.found(),
        recorded=flow.recorded(),
        code=flow.stamp(flow.page()),
    output:
        report(f"{R}/report.html", caption="../report/report.rst", category="leakbench"),
    log:
        f"{LOGS}/report.log",
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 30,
    params:
        root=flow.seen(),
        papers=lambda w: flow.seen("papers"),
        experiments=len(flow.plan.experiments),
    message:
        "report: the scorecard and {params.experiments} experiments on one page"
    shell:
        "python -m leakbench report --scorecard {input.scorecard:q} --seeds {input.seeds:q} --verified {input.verified:q} --tables {input.tables:q}"
        " --exhibits {input.exhibits:q} --figures {input.figures:q} --specs {input.specs:q}"
        " --papers {params.papers:q} --recorded {input.recorded:q} --catalogue {input.catalogue:q}"
        " --root {params.root:q} --out {output:q} 2> {log:q}"


rule verify:
    input:
        tables=flow.each("tables", "csv"),
        reference=flow.reference(),
        code=flow.stamp(flow.code("verify")),
    output:
        numbers=f"{R}/verified.csv",
        summary=f"{R}/verified.json",
    log:
        f"{LOGS}/verify.log",
    priority: 2
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        root=flow.seen(),
        scale=settings.scale,
        seed=f" --seed {flow.seed}" if flow.seed is not None else "",
    message:
        "verify: the numbers beside those recorded"
    shell:
        "python -m leakbench verify --root {params.root:q} --scale {params.scale}{params.seed}"
        " --tables {input.tables:q} --out {output.numbers:q} > {log:q} 2>&1"


rule scorecard:
    input:
        tables=flow.each("tables", "csv"),
        trials=flow.each("trials", "parquet"),
        exhibits=flow.each("exhibits", "safetensors"),
        data=ancient(flow.data()),
        digests=flow.digests(flow.data()),
        facts=flow.facts(),
        papers=flow.published(),
        config=flow.config(),
        recorded=flow.recorded(),
        seeded=flow.seeded(),
        spec=f"{R}/specs/scorecard/catalogue.json",
        code=flow.stamp(flow.code("scorecard")),
    output:
        card=report(
            f"{R}/scorecard.csv",
            caption="../report/scorecard.rst",
            category="leakbench",
        ),
        counts=f"{R}/scorecard.json",
        seeds=f"{R}/seeds.csv",
    log:
        f"{LOGS}/scorecard.log",
    # The scorecard takes longer than any figure, and only the report waits for either.
    priority: 2
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 30,
    params:
        root=flow.seen(),
        papers=lambda w: flow.seen("papers"),
        device=DEVICE,
    message:
        "scorecard: every published number beside ours"
    shell:
        "python -m leakbench scorecard --tables {input.tables:q} --trials {input.trials:q}"
        " --exhibits {input.exhibits:q} --data {input.data:q} --recorded {input.recorded:q}"
        " --seeded {input.seeded:q} --papers {params.papers:q} --spec {input.spec:q} --root {params.root:q}"
        " --device {params.device} --out {output.card:q} --seeds {output.seeds:q} 2> {log:q}"


rule table:
    input:
        scores=lambda w: flow.scores(w.experiment),
        costs=lambda w: flow.costs(w.experiment),
        spec=f"{R}/specs/table/{{experiment}}.json",
        guesses=lambda w: flow.pictured("guesses", w.experiment),
        truths=lambda w: flow.pictured("truth", w.experiment),
        victims=lambda w: flow.pictured("victims", w.experiment),
        data=ancient(lambda w: flow.pictured("data", w.experiment)),
        digests=lambda w: flow.digests(flow.pictured("data", w.experiment)),
        code=lambda w: flow.stamp(flow.table_code(w.experiment)),
    output:
        table=f"{R}/tables/{{experiment}}.csv",
        exhibit=f"{R}/exhibits/{{experiment}}.safetensors",
        trials=f"{R}/trials/{{experiment}}.parquet",
    log:
        f"{LOGS}/table/{{experiment}}.log",
    priority: 2
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 30,
    message:
        "table {wildcards.experiment}"
    shell:
        "python -m leakbench table --scores {input.scores:q} --costs {input.costs:q} --spec {input.spec:q}"
        " --guesses {input.guesses:q} --truths {input.truths:q} --victims {input.victims:q} --data {input.data:q}"
        " --out {output.table:q} --exhibit {output.exhibit:q} --trials {output.trials:q} 2> {log:q}"


rule figure:
    input:
        notebook=flow.seen("notebooks/experiment.ipynb"),
        table=f"{R}/tables/{{experiment}}.csv",
        exhibit=f"{R}/exhibits/{{experiment}}.safetensors",
        spec=f"{R}/specs/figure/{{experiment}}.json",
        trials=f"{R}/trials/{{experiment}}.parquet",
        paper=lambda w: flow.paper(w.experiment),
        recorded=lambda w: flow.drawn(w.experiment),
        # The works are one input and not sixty, because Snakemake reads each input of each figure.
        code=lambda w: flow.stamp(flow.drawing() + flow.works(w.experiment)),
    output:
        figure=report(
            f"{R}/figures/{{experiment}}.png",
            caption="../report/figure.rst",
            category="figures",
        ),
        executed=f"{R}/notebooks/{{experiment}}.ipynb",
    log:
        f"{LOGS}/figure/{{experiment}}.log",
    # All other jobs but the report come first: figures fill the second core while the scorecard is written.
    priority: -1
    resources:
        mem_mb=lambda w, attempt: attempt * 2000,
        runtime=lambda w, attempt: attempt * 30,
    params:
        papers=lambda w: flow.seen("papers"),
    message:
        "figure {wildcards.experiment}"
    shell:
        "python -m leakbench figure --notebook {input.notebook:q} --table {input.table:q}"
        " --trials {input.trials:q} --exhibit {input.exhibit:q} --spec {input.spec:q} --papers {params.papers:q}"
        " --paper {input.paper:q} --recorded {input.recorded:q} --out {output.figure:q} --executed {output.executed:q} 2> {log:q}"
