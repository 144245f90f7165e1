"""Arrays in, arrays out: a folder a problem, a file an algorithm. Knows no policy or state."""
