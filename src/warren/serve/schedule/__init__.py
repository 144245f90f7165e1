"""Which job starts next, where, and why the others wait. Pure."""
