"""What the solvers share: array types, compiling, heaps, the instance, random factors, rounds."""
