"""A Flower app in PyTorch: what is trained, what a client does, what the server does."""
