"""Rules on links: none is above its rate, and each job sent the bytes of its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from warren.model.costs import FloatArray, IntArray
from warren.report.checks.fault import Fault, listed
from warren.report.checks.link_rows import FolderLinks
from warren.report.checks.run_folder import FolderTables

_SHARE: Final = 1e-6
"""Part of a number of bytes that it may differ by: times are whole nanoseconds."""
_ROUNDING: Final = 2.0
"""Additional tolerance of a sum of rows, in bytes: bytes are whole."""


def check_links(run: FolderTables) -> list[Fault]:
    """Return all faults of links; none if the bytes on links were not counted."""
    if run.links is None:
        return []
    return [*_rates(run.links), *_bytes(run, run.links)]


def _rates(links: FolderLinks) -> list[Fault]:
    """Return the bins of links in which more passed than the link's rate allows."""
    # All rows of one link and bin (axis B) become neighbors: their bytes are added up.
    row_R = np.lexsort((links.start_ns_R, links.link_R))
    new_R = np.ones(len(row_R), dtype=np.bool_)
    new_R[1:] = (np.diff(links.link_R[row_R]) != 0) | (np.diff(links.start_ns_R[row_R]) != 0)
    bin_R = np.cumsum(new_R) - 1
    first_B = row_R[new_R]
    bytes_B = np.bincount(bin_R, links.bytes_R[row_R], len(first_B))
    length_s_B = (links.end_ns_R - links.start_ns_R)[first_B] / 1e9
    most_B = links.rate_R[first_B] * length_s_B
    # Each row of a bin is rounded by itself.
    slack_B = _SHARE * most_B + _ROUNDING * np.bincount(bin_R, minlength=len(first_B))
    return listed(
        ~(bytes_B <= most_B + slack_B),
        lambda b: Fault(
            place=f"{links.link(int(links.link_R[first_B[b]]))} from "
            f"{links.start_ns_R[first_B[b]] / 1e9} s",
            what=f"{bytes_B[b]:.0f} bytes pass in {length_s_B[b]} s",
            expected=f"at most {most_B[b]:.0f}, at {links.rate_R[first_B[b]]:.0f} bytes a second",
        ),
    )


def _bytes(run: FolderTables, links: FolderLinks) -> list[Fault]:
    """Check for each finished job that the bytes of its rounds passed each link.

    A run that was cut off counted no bytes before it went on: there it may be less. Jobs that went
    back to a checkpoint are left out: rounds that ran again have sent bytes, too.
    """
    jobs, count = len(run.jobs), 2 * len(links.hosts)
    returned = {one["job"] for one in run.summary.get("rolled_back", ())}
    ran_J, passed_J = _rows_of(run.timeline.job_R, jobs), _rows_of(links.job_R, jobs)
    places: list[tuple[int, int, float, float]] = []
    for job in np.flatnonzero(run.finished_J).tolist():
        if run.jobs[job]["job"] in returned:
            continue
        rows = passed_J[job]
        passed_L = np.bincount(links.link_R[rows], links.bytes_R[rows], count)
        want_L = _sent_L(run, links, job, ran_J[job])
        slack_L = _ROUNDING + _SHARE * want_L
        wrong_L = passed_L > want_L + slack_L
        if not run.summary.get("resumed"):
            wrong_L |= passed_L < want_L - slack_L
        for link in np.flatnonzero(wrong_L).tolist():
            places.append((job, link, float(passed_L[link]), float(want_L[link])))

    def fault(place: int) -> Fault:
        job, link, passed, want = places[place]
        return Fault(
            place=f"{links.link(link)}, job {run.jobs[job]['job']}",
            what=f"{passed:.0f} bytes passed",
            expected=f"{want:.0f}, which its rounds send over this link",
        )

    return listed([True] * len(places), fault)


def _rows_of(job_R: IntArray, jobs: int) -> list[IntArray]:
    """Return the rows of each job."""
    order = np.argsort(job_R, kind="stable")
    return np.split(order, np.cumsum(np.bincount(job_R, minlength=jobs))[:-1])


def _sent_L(run: FolderTables, links: FolderLinks, job: int, rows: IntArray) -> FloatArray:
    """Return the bytes that a job's rounds must send over each link, given where its tasks ran.

    ``rows``: the job's in the timeline.
    """
    placings = sorted(links.servers_J[job].items())
    # A model of unknown size is on no link.
    if not placings:
        return np.zeros(2 * len(links.hosts))
    first = placings[0][1]
    if first[0][0] < 0:
        return _ring_L(run, links, rows, int(run.scale_J[job]), first[0][1])
    sent_HL = np.zeros((len(links.hosts), 2))
    ends = [*(begin for begin, _ in placings[1:]), np.iinfo(np.int64).max]
    for (begin, servers), end in zip(placings, ends, strict=True):
        sent_HL += _served_HL(run, links, rows, servers, (begin, end))
    for (_, before), (_, after) in pairwise(placings):
        sent_HL += _moved_HL(len(links.hosts), before, after)
    return sent_HL.reshape(-1)


def _served_HL(
    run: FolderTables,
    links: FolderLinks,
    rows: IntArray,
    servers: Sequence[tuple[int, float, int]],
    span: tuple[int, int],
) -> FloatArray:
    """Return the bytes up and down each host's link of the rounds of a job from one to another."""
    line, hosts = run.timeline, len(links.hosts)
    # Number of each row's rounds that are among these.
    first_R = np.maximum(line.round_R[rows], span[0])
    rounds_R = np.minimum(line.round_R[rows] + line.rounds_R[rows], span[1]) - first_R
    rows, rounds_R = rows[rounds_R > 0], rounds_R[rounds_R > 0]
    device_R, sent_HL = line.device_R[rows], np.zeros((hosts, 2))
    # A device pulls once a round, however many of its tasks it runs: rows that share a device and a
    # (first) round pull once. Each task pushes.
    pairs = device_R * (line.round_R[rows].max(initial=0) + 1) + line.round_R[rows]
    pulls = np.unique(pairs, return_index=True)[1]
    host_R = links.host_D[device_R]
    pulls_H = np.bincount(host_R[pulls], rounds_R[pulls], hosts)
    tasks_R = line.tasks_R[rows] // line.rounds_R[rows] * rounds_R
    pushes_H = np.bincount(host_R, tasks_R, hosts)
    first, _, _ = servers[0]
    for server, byte_count, gathered in servers:
        if server != first:
            sent_HL[server, 0] += byte_count * gathered
            sent_HL[first, 1] += byte_count * gathered
        away_H = np.arange(hosts) != server
        sent_HL[:, 0] += byte_count * pushes_H * away_H
        sent_HL[:, 1] += byte_count * pulls_H * away_H
        sent_HL[server] += byte_count * np.array((pulls_H @ away_H, pushes_H @ away_H))
    return sent_HL


def _moved_HL(
    hosts: int,
    before: Sequence[tuple[int, float, int]],
    after: Sequence[tuple[int, float, int]],
) -> FloatArray:
    """Return the bytes up and down each host's link when servers give their parts to others.

    Parts lie one after another in the model, before and after, so two parts share one range.
    """
    sent_HL = np.zeros((hosts, 2))
    old, new = ([0.0, *accumulate(size for _, size, _ in held)] for held in (before, after))
    for (source, _, _), begin, end in zip(before, old, old[1:], strict=False):
        for (target, _, _), first, last in zip(after, new, new[1:], strict=False):
            shared = min(end, last) - max(begin, first)
            if shared > 0 and source != target:
                sent_HL[source, 0] += shared
                sent_HL[target, 1] += shared
    return sent_HL


def _ring_L(
    run: FolderTables, links: FolderLinks, rows: IntArray, workers: int, model_bytes: float
) -> FloatArray:
    """Return the bytes that a ring's rounds send over each link: none of a ring on one host."""
    line, hosts = run.timeline, len(links.hosts)
    pairs = line.round_R[rows] * hosts + links.host_D[line.device_R[rows]]
    pair_P, first_P = np.unique(pairs, return_index=True)
    host_P = pair_P % hosts
    _, group_P, size_G = np.unique(pair_P // hosts, return_inverse=True, return_counts=True)
    crosses_P = size_G[group_P] > 1
    rounds_P = line.rounds_R[rows][first_P]
    # The ring goes once into each of its hosts and once out; each member sends as much.
    rounds_H = np.bincount(host_P[crosses_P], rounds_P[crosses_P], hosts)
    return np.repeat(2 * model_bytes * (workers - 1) / workers * rounds_H, 2)
