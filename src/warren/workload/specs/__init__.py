"""One module for each kind of user file: its allowed content, and the objects made of it."""
