"""Files of a run: its folder and journal, the history database. Writes are whole or absent."""
