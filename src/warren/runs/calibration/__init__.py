"""Measuring what simulations need: the engine, rows of profiles, networks of rings."""
