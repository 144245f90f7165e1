"""Leases of hosts: safe placement of processes when messages are lost and machines cut off."""
