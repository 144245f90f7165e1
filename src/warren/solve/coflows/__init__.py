"""Coflows: sets of flows that end with their last flow, in an order."""
