"""The one page: scorecard first, then every experiment with published and measured side by side."""

from leakbench.report.page import page
from leakbench.report.section import Section

__all__ = ["Section", "page"]
