"""A run checked without being run."""

from __future__ import annotations

from pathlib import Path

from warren.model.cluster import Cluster
from warren.runs.compose import PreparedRun
from warren.store.run_folder import check_free
from warren.workload.specs.write import dump_run


def resolved_text(prepared: PreparedRun, out: str | None = None) -> str:
    """Check a run's costs, policy and folder; return its ``run.yaml`` as the folder would hold it.

    ``out``: the folder that the run would write; None: it would write none. Raises SpecError if the
    run could not begin, or the folder is taken.
    """
    prepared.check()
    # As late as in a run: faults of the run itself are reported first.
    if out:
        check_free(Path(out))
    return dump_run(prepared.run)


def asked_of_ray(cluster: Cluster) -> str:
    """Return the request of a live run to Ray, in a line; empty: none."""
    if cluster.ray is None:
        return ""
    nodes = ", ".join(host.name for host in cluster.hosts)
    return (
        f"Ray at {cluster.ray}: one actor of no processor, with hard affinity, on each of the "
        f"nodes called {nodes}; it starts the host's agent, and nothing else is asked of Ray"
    )
