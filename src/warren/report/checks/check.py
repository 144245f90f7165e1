"""Check from the exported files of a run folder alone whether the run kept the rules.

What is checked: names are known; arrivals are respected; every (round, shard) is done once; no
round starts before the barrier of the one before; no device runs two COMP steps at once, and with
network ``lane`` no two synchronizations; jobs ran only where they fit, for the time that
``profile.csv`` states; a device that goes to another job spends the switch of ``profile.csv``,
where it has one; ``jobs.csv`` and ``summary.json`` follow from the timeline; no bound exceeds its
value. Where the folder records what passed links: no link is above its rate, and each finished job
sent what its rounds must send over each link, given where its tasks ran and its servers are.

How exactly: in simulation times agree within 2 ns (and the rounding of a double); with hidden
noise durations are free. Live a stamp may be off by its rounding, ``STAMP_S`` of real time, and
steps may be longer than their pad, but not shorter unless their pads were drawn from jitter.
"""

from __future__ import annotations

from collections.abc import Mapping

from warren.report.checks.devices import check_devices
from warren.report.checks.fault import Fault
from warren.report.checks.jobs import check_jobs, check_summary
from warren.report.checks.links import check_links
from warren.report.checks.run_folder import load
from warren.report.checks.switches import check_switches
from warren.report.checks.tasks import check_tasks

__all__ = ["Fault", "check"]


def check(files: Mapping[str, bytes]) -> list[Fault]:
    """Return all faults of a run folder, given by file name; none if the run kept the rules.

    It looks at ``jobs.csv``, ``devices.csv``, ``profile.csv``, ``timeline.parquet`` and
    ``summary.json``, and at ``links.parquet`` with ``servers.csv`` where the run has them.
    """
    run, faults = load(files)
    # The rules index arrays by the names in the files: without known names there is nothing to ask.
    if run is None:
        return faults
    return [
        *check_jobs(run),
        *check_tasks(run),
        *check_devices(run),
        *check_switches(run),
        *check_links(run),
        *check_summary(run),
    ]
