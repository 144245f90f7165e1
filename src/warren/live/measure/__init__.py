"""What tasks, rounds of rings and this machine take."""
