"""Rules for a run's folder, whatever program wrote it."""
