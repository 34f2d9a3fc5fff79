"""The reader of papers/<work>/: what works print and claim, and which rows of ours belong to it."""
