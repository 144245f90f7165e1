"""Coflows: sets of flows of which the last one counts, in an order."""
