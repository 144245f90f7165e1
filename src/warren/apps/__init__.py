"""What user code implements."""
