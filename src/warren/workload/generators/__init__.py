"""Generated workloads, one generator a file; ``job_sources.py`` calls them."""
