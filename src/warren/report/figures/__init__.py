"""Figures of matplotlib: of one run, of several, of a comparison and of its users."""
