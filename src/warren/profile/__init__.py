"""What a task costs where: shipped table, measuring, history."""
