"""Curves read from files: tables, logs and JSON, with notes on what is not used of them."""
