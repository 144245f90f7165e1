"""Curves read from files: tables, logs and JSON, with notes on unused parts."""
