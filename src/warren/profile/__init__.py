"""Costs of tasks on device types: the shipped table, measured rows, rows of the history."""
