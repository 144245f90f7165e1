"""Learning curves, training speed, remaining rounds."""
