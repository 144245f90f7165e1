"""Classes of flows of jobs that Warren did not start: rules of the kernel, and their owners."""
