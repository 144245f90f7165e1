"""Arrays in, arrays out: list scheduling, bounds, optima. Knows nothing of jobs."""
