"""Studies beside a run: a learning curve, an app, a policy, a job's shape, groups, a figure."""
