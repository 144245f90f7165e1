"""What ``warren calibrate --rings`` says and draws."""
