"""The output of ``warren calibrate --rings``: text and pictures."""
