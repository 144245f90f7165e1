"""A job's state of one round, as bytes and as files."""
