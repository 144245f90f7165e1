"""Profiles of tasks: the jobs to measure, and what the history database holds of them."""
