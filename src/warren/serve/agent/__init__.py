"""The agent of a machine: it starts, watches and ends the processes of jobs."""
