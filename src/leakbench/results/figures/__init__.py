"""Draws figures from tables and exhibits.

The drawings compute no result: they read, place and label.
"""
