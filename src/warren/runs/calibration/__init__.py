"""Measurements for simulations: the engine, rows of profiles, networks of rings."""
