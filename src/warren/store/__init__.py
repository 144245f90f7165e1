"""What a run leaves: its folder and journal, the history database. Writes are whole or absent."""
