"""Engines: ways to make the gradients of dummies and their derivatives, each quick for some networks."""
