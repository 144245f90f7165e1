"""The views of a command: text, progress, pictures."""
