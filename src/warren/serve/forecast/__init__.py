"""What is expected of the queue: how long jobs run, and when waiting jobs start and end."""
