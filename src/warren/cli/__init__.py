"""Composition: the only room that sees both worlds."""
