"""The service: a queue for a team, its daemon, its agents on machines, and its clients."""
