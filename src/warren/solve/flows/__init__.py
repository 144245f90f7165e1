"""Flows that share links: max-min fair rates, from scratch and after each change."""
