"""Generated workloads, one generator a file."""
