"""The report, one page: the scorecard first, then every experiment.

Each experiment has its published and its measured numbers side by side.
"""
