"""Generated workloads, one generator a file; ``registry.py`` lists them."""
