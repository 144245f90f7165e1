"""Hosts on one machine: network namespaces behind links of a stated rate."""
