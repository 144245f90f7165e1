"""Traces read by a user's options: inspected, and converted to files of a run."""
