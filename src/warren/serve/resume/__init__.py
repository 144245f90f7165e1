"""Commands that stop and come back: their checkpoints, their variables, their next start."""
