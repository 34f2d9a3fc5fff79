"""Processes: their start, their end, and what they may open."""
