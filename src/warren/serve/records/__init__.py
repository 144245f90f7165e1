"""What the service knows: jobs, machines, users, and the events that change them. Values alone."""
