"""Draws figures from tables and exhibits. Nothing here computes a result: it reads, places and labels."""
