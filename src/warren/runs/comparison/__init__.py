"""Runs side by side: the simulations, and the results of their comparison."""
