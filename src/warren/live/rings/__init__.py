"""Rings: gangs of processes that sum their gradients among themselves, without a server."""
