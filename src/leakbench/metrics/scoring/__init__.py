"""From an attack's guesses and the truth to score rows: one for each private image or update.

Null baselines, certified bounds and other references have rows of their own.
"""
