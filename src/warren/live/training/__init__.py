"""The arithmetic of a job, without sockets or processes: what one task and one barrier compute."""
