from leakbench.base.core_time import in_words
from leakbench.base.processes.warm import lead

gc.freeze()
gc.enable()
try:
    lead(workflow.is_main_process)
    # A start with `--touch` is to mark results as current, so it must not let them be made again.
    if workflow.is_main_process and not {"--touch", "-t"} & set(sys.argv):
        lines, lost = flow.lost()
        for line in (*flow.passed_over(), *lines, *flow.strays()):
            print(f"leakbench: {line}", file=sys.stderr)
        LOST += lost
except UserError as mistake:
    print(f"leakbench: {mistake}", file=sys.stderr)
    sys.exit(2)


# For --sdm apptainer; built by `apptainer build leakbench.sif workflow/leakbench.def`.
container: "leakbench.sif"


wildcard_constraints:
    **flow.constraints,


# This code runs when jobs run, but not in a dry run. Where another workflow uses this one, the other workflow decides.
onstart:
    try:
        if workflow.touch:
            flow.accept()
        else:
            if took := flow.confirm(workflow.dag.needrun_jobs(), settings.confirm):
                said = (
                    f"attacks, trainings and captures take about {in_words(took)}"
                )
                print(f"leakbench: {said} of the cost model", file=sys.stderr)
            # On one machine `--cores` limits the jobs. Snakemake's limit of jobs for each timespan starts a timer
            # whenever it looks for jobs, and looks again at the end of each timer. That takes much of a core
            # by the end of a long run.
            if workflow.local_exec:
                workflow.scheduler.job_rate_limiter = None
    except UserError as mistake:
        print(f"leakbench: {mistake}", file=sys.stderr)
        sys.exit(2)


# Results that lack a data set are results. But who named an experiment, and got nothing, is told so by the exit code.
onsuccess:
    for line in (lines := flow.unserved()):
        print(f"leakbench: {line}", file=sys.stderr)
    if lines:
        sys.exit(2)
