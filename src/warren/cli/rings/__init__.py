"""What `warren calibrate --rings` does, says and draws."""
