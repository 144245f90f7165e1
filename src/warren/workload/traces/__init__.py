"""Public traces read: their rows, the jobs and costs that they become."""
