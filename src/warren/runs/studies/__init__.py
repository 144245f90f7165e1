"""Studies beside a run: of a learning curve, an app, a policy, a figure, a testbed."""
