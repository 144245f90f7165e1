"""The commands of the service: what each takes, what it asks of the service, what it prints."""
