"""leakbench: how much of a client's private data can a server read back out of its updates?"""

__version__ = "0.2.0"
