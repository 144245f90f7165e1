"""Parts shared by the solvers: array types, compiling, heaps, the instance, draws, rounds."""
