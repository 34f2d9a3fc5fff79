from leakbench.catalogue.jobs import calm, prefix

shell.prefix(prefix(workflow))


onstart:
    calm(workflow)
