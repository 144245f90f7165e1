"""Hare and the baselines of its paper."""
