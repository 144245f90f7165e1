"""Rings whose jobs share links: how long rounds take, who starts when and where."""
