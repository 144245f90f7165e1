"""The queue: events make it, requests become events or are refused. Pure."""
