"""What policies share: times of rounds, memories that are cheap to change, gangs."""
