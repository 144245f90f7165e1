"""What a task costs where: the shipped table, measured rows, rows of the history."""
