"""The command: options, a call of ``runs``, and its output for people."""
