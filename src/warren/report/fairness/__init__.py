"""How much jobs and users wait for one another: slow-down, finish-time fairness, shares."""
