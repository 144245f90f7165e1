"""Relaxed problems whose solutions give orders of jobs."""
