"""From single scores to an experiment's tidy table, the trials behind its lines, and its pictures."""
