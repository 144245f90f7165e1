"""Shapes of parameter-server jobs: who works, who serves, and how data and model are split."""
