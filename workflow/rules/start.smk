from leakbench.warm import lead

lead(workflow.is_main_process)
# What `--touch` is to mark as current is made again by no later start.
if workflow.is_main_process and not {"--touch", "-t"} & set(sys.argv):
    try:
        for line in flow.strays():
            print(f"leakbench: {line}", file=sys.stderr)
    except UserError as mistake:
        print(f"leakbench: {mistake}", file=sys.stderr)
        sys.exit(2)


# For --sdm apptainer; built by `apptainer build leakbench.sif workflow/leakbench.def`.
container: "leakbench.sif"


wildcard_constraints:
    **flow.constraints,


# Of jobs that run, and not of a dry run; where another workflow uses this one, that one decides.
onstart:
    try:
        if workflow.touch:
            flow.accept()
        else:
            flow.confirm(workflow.dag.needrun_jobs(), settings.confirm)
    except UserError as mistake:
        print(f"leakbench: {mistake}", file=sys.stderr)
        sys.exit(2)
