"""Measured times of tasks, rounds of rings and this machine."""
