"""What algorithms share: compiling, heaps, the instance, draws, the length of a round."""
