"""Every durable byte: run folders, journals, the history database. Knows no policy."""
