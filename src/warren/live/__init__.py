"""The real thing behind the core's port: a folder a kind of process, and what they share."""
