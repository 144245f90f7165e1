"""HLAS, HLAS-P and the baselines of their paper."""
