"""The live engine behind the core's port: a folder a kind of process, and their shared code."""
