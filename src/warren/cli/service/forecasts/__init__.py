"""Commands that look ahead: why a job waits, and what a change would do."""
