from leakbench.warm import lead

lead(workflow.is_main_process)
if workflow.is_main_process and (strays := flow.renew()):
    print(
        f"leakbench: these follow another spec and are made again: {', '.join(strays)}",
        file=sys.stderr,
    )


# For --sdm apptainer; built by `apptainer build leakbench.sif workflow/leakbench.def`.
container: "leakbench.sif"


wildcard_constraints:
    **flow.constraints,


# Of jobs that run, and not of a dry run; where another workflow uses this one, that one decides.
onstart:
    try:
        if not workflow.touch:
            flow.confirm(workflow.dag.needrun_jobs(), settings.confirm)
    except UserError as mistake:
        print(f"leakbench: {mistake}", file=sys.stderr)
        sys.exit(2)
