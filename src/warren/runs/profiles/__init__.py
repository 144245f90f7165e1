"""Profiles of tasks: the jobs to measure, and their rows in the history database."""
