"""Published formats of traces, a file each."""
