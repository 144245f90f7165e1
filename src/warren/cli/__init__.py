"""The command: options, a call of ``runs``, and what a person sees of it."""
