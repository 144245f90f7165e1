"""A testbed as a table, as JSON, and the progress of measuring its links."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from warren.live.testbed.link_test import GOODPUT, MeasuredLink, TestFlows
from warren.live.testbed.names import namespace
from warren.live.testbed.status import TestbedStatus
from warren.model.testbed import Bed
from warren.report.number_text import aligned


def whole(one: TestbedStatus, found: Sequence[MeasuredLink] | None) -> dict[str, Any]:
    """Return a testbed for ``--json``; ``measured`` is in it if its links were measured."""
    value: dict[str, Any] = {"name": one.name, "faults": list(one.faults)}
    # Without its record only its name is known.
    if one.record is None:
        return value
    bed = one.record.bed
    value |= {"subnet": bed.subnet, "queue": bed.queue, "hosts": _hosts(bed, one.processes_H)}
    if found is not None:
        value["measured"] = [
            {
                "flows": [[bed.hosts[a].name, bed.hosts[b].name] for a, b in row.flows.flows],
                "fills": [[bed.hosts[host].name, way] for host, way in row.flows.fills],
                "expected_bps": round(row.expected_bps),
                "goodput_bps": round(row.goodput_bps),
                "ok": row.ok,
            }
            for row in found
        ]
    return value


def _hosts(bed: Bed, processes_H: Sequence[int]) -> list[dict[str, Any]]:
    """Return the hosts of a testbed, with how many processes run in each."""
    return [
        {
            "name": host.name,
            "address": bed.address(i),
            "link_bps": host.link_bps,
            "cpus": host.cpus,
            "namespace": namespace(bed.name, i),
            "processes": processes_H[i],
        }
        for i, host in enumerate(bed.hosts)
    ]


def hosts_lines(one: TestbedStatus) -> list[str]:
    """Return the hosts of a testbed with a record as an aligned table."""
    assert one.record is not None
    bed = one.record.bed
    rows = [("host", "address", "link", "cpus", "processes", "namespace")]
    for host in _hosts(bed, one.processes_H):
        cpus = "all" if host["cpus"] is None else f"{host['cpus']:g}"
        link, runs = _rate(host["link_bps"]), str(host["processes"])
        rows.append((host["name"], host["address"], link, cpus, runs, host["namespace"]))
    return [
        f"{bed.name}: {len(bed.hosts)} hosts in {bed.subnet}, queue {bed.queue}",
        *aligned(rows),
    ]


def measured_lines(bed: Bed, found: Sequence[MeasuredLink]) -> list[str]:
    """Return measured rates as an aligned table."""
    rows = [("fills", "flows", "expected", "measured", "off by", "")]
    for one in found:
        names = [host.name for host in bed.hosts]
        whose = sorted(one.flows.fills, key=lambda fill: fill[1], reverse=True)  # out before in
        fills = ", ".join(f"{names[host]} {way}" for host, way in whose)
        # Goodput against goodput: neither counts headers.
        off = 100 * (one.goodput_bps / one.expected_bps - 1)
        rates = (_rate(one.expected_bps), _rate(one.goodput_bps), f"{off:+.1f} %")
        rows.append((fills, _flows(bed, one.flows), *rates, "" if one.ok else "OFF"))
    return [f"goodput of TCP, expected: {100 * GOODPUT:.1f} % of the link's rate", *aligned(rows)]


def _flows(bed: Bed, flows: TestFlows) -> str:
    """Return the hosts that send and receive, in words."""
    return ", ".join(f"{bed.hosts[a].name} -> {bed.hosts[b].name}" for a, b in flows.flows)


def _rate(rate_bps: float) -> str:
    """Return a rate for people."""
    return f"{rate_bps / 1e6:.4g} Mbit/s" if rate_bps < 1e9 else f"{rate_bps / 1e9:.4g} Gbit/s"


@contextmanager
def measured_view(bed: Bed) -> Iterator[Callable[[int, int, MeasuredLink], None]]:
    """Show the progress of a measurement on standard error: a bar on a terminal, elsewhere lines.

    Yields a function to call with the number done, the number of all, and the last one.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, last: print(
            f"  measured {done} of {total}: {_flows(bed, last.flows)}", file=sys.stderr, flush=True
        )
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"measuring {bed.name}", total=None)
        yield lambda done, total, _: bar.update(task, completed=done, total=total)
