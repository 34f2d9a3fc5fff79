"""The scorecard: published numbers and claims beside measured ones, each with a verdict and its reason."""
