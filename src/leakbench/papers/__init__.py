"""Reads papers/<work>/: what works printed and claim, and which rows of ours belong to it."""
