from leakbench.catalogue import run_lock
from leakbench.catalogue.jobs import calm, prefix

run_lock.share()
shell.prefix(prefix(workflow))


onstart:
    calm(workflow)
