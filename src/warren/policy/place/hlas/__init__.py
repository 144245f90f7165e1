"""HLAS, HLAS-P and what their paper compares them with."""
