"""Leases of hosts: who may run what where, when messages are lost and machines are cut off."""
