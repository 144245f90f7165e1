"""Runs side by side: which are simulated, and what their comparison says."""
