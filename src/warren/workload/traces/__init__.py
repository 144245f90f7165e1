"""Readers of public traces, one file a format; ``registry.py`` lists them."""
