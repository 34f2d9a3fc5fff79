"""The catalogue: the YAML below config/, validated and resolved into cells.

Nothing here imports torch, so that parsing is quick.
"""
