"""Hosts as the daemon sees them: one port, behind which are agents, or no process at all."""
