"""What a command shows: text, progress, pictures."""
