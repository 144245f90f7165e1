"""Rings whose jobs share links: how long rounds take, which job starts when and where."""
