"""The papers' closed forms. Pure functions."""
