"""The entry point of `python -m leakbench VERB …`."""

import sys

from leakbench.jobs.cli import main

if __name__ == "__main__":
    sys.exit(main())
