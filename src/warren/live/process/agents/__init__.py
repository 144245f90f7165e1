"""Agents of hosts that are separate machines, and the pool of the processes that run there."""
