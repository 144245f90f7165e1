"""A run prepared and played, live or simulated: rooms put together. Prints nothing."""
