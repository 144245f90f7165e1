"""Opportunistic hosts of a run: when they came and went, what changed, what hosts cost."""

from __future__ import annotations

from warren.model.events import HostJoined, HostLeft
from warren.model.units import ns_to_seconds
from warren.report.record import Record


def host_values(record: Record) -> dict[str, object]:
    """Return the keys of ``summary.json`` about opportunistic hosts, and what all hosts cost.

    ``hosts_changed``: of each time a host came or went its name, and the shapes that jobs got then,
    each with the round at hand. ``cost``: the price of all hosts for the hours they were there,
    from time zero to the last job's end; only where hosts have prices.
    """
    history, hosts = record.history, record.run.cluster.hosts
    found: dict[str, object] = {}
    if history.host_changes:
        found["hosts_changed"] = [
            {
                "host": hosts[event.host].name,
                "time_s": ns_to_seconds(event.time_ns),
                "there": isinstance(event, HostJoined),
                "shapes": _shapes_at(record, event.time_ns),
            }
            for event in history.host_changes
        ]
    if all(host.price is not None for host in hosts):
        there_ns_H = _present_ns_H(record)
        prices = [host.price or 0.0 for host in hosts]
        found["cost"] = sum(
            price * ns_to_seconds(there_ns) / 3600
            for price, there_ns in zip(prices, there_ns_H, strict=True)
        )
    return found


def _shapes_at(record: Record, time_ns: int) -> list[dict[str, object]]:
    """Return the shapes answered at an instant: job, round at hand, hosts of workers, servers."""
    jobs, hosts, history = record.run.workload.jobs, record.run.cluster.hosts, record.history
    rows: list[dict[str, object]] = []
    for answer in history.answers:
        for job, shape in answer.decision.shapes.items() if answer.time_ns == time_ns else ():
            returns = [one.event for one in history.rollbacks if one.event.job == job]
            back = next((one.round for one in returns if one.time_ns == time_ns), None)
            passed = sum(
                one.rounds for one in history.rounds if one.job == job and one.time_ns <= time_ns
            )
            workers = range(len(hosts)) if shape.workers is None else shape.workers
            rows.append(
                {
                    "job": jobs[job].name,
                    "round": passed if back is None else back,
                    "workers": [hosts[host].name for host in workers],
                    "servers": [hosts[host].name for host in shape.servers],
                }
            )
    return rows


def _present_ns_H(record: Record) -> list[int]:
    """Return how long each host was there, from time zero to the last job's end."""
    end_ns = int(record.history.finish_ns_J.max(initial=0))
    there_ns_H = [end_ns for _ in record.run.cluster.hosts]
    gone: dict[int, int] = {}
    for event in record.history.host_changes:
        if isinstance(event, HostLeft):
            gone.setdefault(event.host, event.time_ns)
        elif event.host in gone:
            there_ns_H[event.host] -= min(end_ns, event.time_ns) - min(end_ns, gone.pop(event.host))
    for host, since_ns in gone.items():
        there_ns_H[host] -= end_ns - min(end_ns, since_ns)
    return there_ns_H
