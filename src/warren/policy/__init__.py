"""Scheduling algorithms: a view in, a decision out."""
