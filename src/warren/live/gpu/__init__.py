"""Devices that are GPUs: which there are, and how a job's model lies on one."""
