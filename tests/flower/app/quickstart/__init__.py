"""A Flower app in PyTorch of the usual three files: what is trained, what a client does, what the server
does."""
