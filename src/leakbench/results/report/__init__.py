"""The report, one page: the scorecard first, then every experiment.

Each experiment has its published and its measured numbers side by side.
"""

from leakbench.results.report.page import mine, page
from leakbench.results.report.section import Section

__all__ = ["Section", "mine", "page"]
