"""Answers to shape, group and flow: made plain, allowed or refused, and kept while they stand."""
