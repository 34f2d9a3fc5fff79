"""Published numbers and claims beside measured ones, each with a verdict and the reason for it."""
