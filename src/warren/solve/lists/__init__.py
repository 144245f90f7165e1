"""List scheduling: orders of tasks become schedules."""
