"""The audit: what an update of somebody's own model gives away, and what would help (docs/audit.md)."""
