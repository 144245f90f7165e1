"""Hare and what its paper compares it with."""
