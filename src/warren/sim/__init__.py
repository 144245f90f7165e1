"""Virtual time: the core's ports, hidden truth, network models."""
