"""Agents of hosts that are machines of their own, and the pool of what they run."""
