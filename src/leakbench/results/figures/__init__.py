"""Draws figures from tables and exhibits: reads, places and labels, and computes no result."""
