"""What asks a service: finds it, calls it; imports nothing heavy."""
