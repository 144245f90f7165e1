"""Commands as jobs that place policies know: the order in which a policy would run them."""
