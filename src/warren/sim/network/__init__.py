"""Networks in virtual time: contention between rings, and flows that share links."""
