"""GPUs split into groups, and what waiting jobs take of a group."""
