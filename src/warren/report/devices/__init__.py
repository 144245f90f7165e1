"""What devices and hosts do beside tasks: they go from job to job, come and go, and cost."""
