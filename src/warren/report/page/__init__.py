"""The HTML page of a run or of several: one file, nothing fetched."""
