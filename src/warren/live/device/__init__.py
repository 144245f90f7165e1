"""One device: its executor, its lanes, and the trainers that run user code."""
