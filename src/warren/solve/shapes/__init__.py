"""Shapes of parameter-server jobs: working and serving machines, splits of data and model."""
