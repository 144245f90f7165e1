"""A parameter server: states out, updates in, the barrier, checkpoints."""
