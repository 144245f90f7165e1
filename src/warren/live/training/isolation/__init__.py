"""What a task may change, and how anything else is found."""
