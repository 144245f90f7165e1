"""Lower bounds, and exact optima of small instances."""
