"""The commands, a file each: options, a call of ``runs``, one view."""
