"""The catalogue: YAML under config/, validated, resolved into cells. Free of torch, so that parsing is
quick."""
