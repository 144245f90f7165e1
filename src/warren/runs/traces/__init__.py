"""Traces read by what a user says of them: looked at, and turned into files of a run."""
