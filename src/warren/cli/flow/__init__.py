"""What the commands of ``warren flow`` share, and those that speak between hosts."""
