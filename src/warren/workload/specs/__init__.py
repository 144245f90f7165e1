"""One file a kind of user file: what may stand in it, and what it becomes."""
