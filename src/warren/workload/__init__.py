"""Job files, public traces and generators become one sorted workload."""
