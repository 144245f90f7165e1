"""The words every other room speaks: units, errors, cluster, job, event, view, decision."""
