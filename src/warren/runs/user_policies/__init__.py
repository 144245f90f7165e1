"""Policies that users write: in a file, or as a class or object of Python."""
