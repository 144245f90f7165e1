"""Warren: one scheduler for many training jobs on one shared cluster."""

__version__ = "0.1.0"
