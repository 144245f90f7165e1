"""What a service has recorded, as a run: to report on it, and to replay it under other policies."""
