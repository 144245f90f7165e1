"""Shared code of the commands of ``warren flow``, and the commands that talk between hosts."""
