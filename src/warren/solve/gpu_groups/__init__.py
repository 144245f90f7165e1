"""GPUs split into groups, and the tasks that waiting jobs start on a group."""
