"""The journal on disk: SQLite, append-only, one writer."""
