"""Networks of this machine: hosts as namespaces behind shaped links."""
