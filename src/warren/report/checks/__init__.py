"""What must hold in a run's folder, whoever wrote it."""
