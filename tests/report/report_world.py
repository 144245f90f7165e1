"""A small hand-made scheduler that lays tasks out by the rules, for records to report on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from warren.core.journal import Header
from warren.core.journal_reader import History
from warren.model.cluster import Cluster, Device, DeviceType, Emulate, Host, Network
from warren.model.costs import CostTable
from warren.model.events import ParamsSaved, RoundsDone, TasksDone
from warren.model.job import Job, Workload
from warren.model.run import Grain, Run, Scheduler
from warren.model.timeline import Timeline
from warren.model.units import NEVER_NS
from warren.report.metrics import schedule_values
from warren.report.record import Bound, Record

MS = 1_000_000
S = 1_000_000_000
TYPES = ("V100", "T4", "K80")


def cluster_of(counts, network="constant", emulate=None):
    """``counts`` devices of each of the first types, one host a type."""
    devices, hosts = [], []
    for type_name, count in zip(TYPES, counts, strict=False):
        host = f"{type_name.lower()}-0"
        names = [f"{host}/{type_name}-{k}" for k in range(count)]
        devices += [
            Device(index=len(devices) + k, name=name, type=type_name, host=host)
            for k, name in enumerate(names)
        ]
        hosts.append(Host(name=host, devices=tuple(names)))
    types = tuple(DeviceType(name=name) for name in TYPES[: len(counts)])
    return Cluster(
        hosts=tuple(hosts),
        devices=tuple(devices),
        types=types,
        network=Network(model=network),
        emulate=emulate,
    )


def jobs_of(count, rng, names=None, max_rounds=12):
    models = ("resnet50", "bert", "vgg19", "graphsage")
    arrivals = np.sort(rng.integers(0, 40 * count, count)) * 100 * MS
    return tuple(
        Job(
            index=k,
            name=names[k] if names else f"job-{k:02d}",
            scale=int(rng.integers(1, 5)),
            rounds=int(rng.integers(2, max_rounds)),
            model=models[int(rng.integers(0, 4))],
            weight=float(rng.integers(1, 4)),
            arrival_ns=int(arrivals[k]),
            user=f"user{k % 3}",
            seed=k,
            batch=32,
        )
        for k in range(count)
    )


def costs_of(jobs, cluster, rng, tight=False):
    """T^c of 100-900 ms by type, T^s below T^c; with ``tight`` every third job misses type 0."""
    base = rng.integers(100, 400, len(jobs))[:, None] * MS
    slow = np.array([1.0, 1.7, 2.9])[: len(cluster.types)]
    comp = (base * slow).astype(np.int64) + 7
    sync = np.repeat((base // 4).astype(np.int64), len(cluster.types), axis=1) + 3
    fits = np.ones(comp.shape, dtype=bool)
    if tight and len(cluster.types) > 1:
        fits[::3, 0] = False
    comp[~fits], sync[~fits] = NEVER_NS, NEVER_NS
    return CostTable(comp_ns_JT=comp, sync_ns_JT=sync, fits_JT=fits)


def lay_out(jobs, cluster, costs, *, jitter=None):
    """Round robin over jobs by arrival, each task to the device with the earliest COMP end.

    Follows the model: FIFO devices, barrier by last synchronization; ``lane`` queues the
    synchronizations of a device.  Returns (TasksDone list, RoundsDone list).
    """
    lane = cluster.network.model == "lane"
    comp_free = [0] * len(cluster.devices)
    comm_free = [0] * len(cluster.devices)
    barrier = {job.index: job.arrival_ns for job in jobs}
    done, rounds = [], []
    todo = [(job.arrival_ns, 0, job.index) for job in jobs]
    while todo:
        todo.sort()
        _, r, j = todo.pop(0)
        job, ready, last = jobs[j], barrier[j], 0
        for shard in range(job.scale):
            fits = [
                d.index
                for d in cluster.devices
                if costs.fits_JT[j, cluster.type_of_device[d.index]]
            ]
            device = min(
                fits,
                key=lambda d: (
                    max(comp_free[d], ready) + costs.comp_ns_JT[j, cluster.type_of_device[d]]
                ),
            )
            kind = cluster.type_of_device[device]
            start = max(comp_free[device], ready)
            comp = int(costs.comp_ns_JT[j, kind]) + (int(jitter() * MS) if jitter else 0)
            comp_end = start + comp
            sync_start = max(comp_end, comm_free[device]) if lane else comp_end
            end = sync_start + int(costs.sync_ns_JT[j, kind])
            comp_free[device], comm_free[device] = comp_end, end
            last = max(last, end)
            done.append(TasksDone(end, j, r, 1, (shard,), device, start, comp_end, comp))
        barrier[j] = last
        finished = r + 1 == job.rounds
        loss = 2.5 * (r + 1) ** -0.4 + 0.02 * j
        rounds.append(RoundsDone(last, j, r, 1, finished, loss))
        if not finished:
            todo.append((last, r + 1, j))
    return done, rounds


def record_of(
    *,
    jobs=8,
    counts=(3, 2),
    seed=1,
    network="constant",
    world="simulation",
    names=None,
    failed=(),
    tight=False,
    max_rounds=12,
    place="hare",
    bound_share=0.8,
    name="spine",
    jitter=None,
):
    """A whole record; ``failed`` jobs lose their last round and end as failed."""
    rng = np.random.default_rng(seed)
    emulate = Emulate(time_scale=0.05) if world == "live" else None
    cluster = cluster_of(counts, network, emulate)
    table = jobs_of(jobs, rng, names, max_rounds)
    costs = costs_of(table, cluster, rng, tight)
    run = Run(
        name=name,
        cluster=cluster,
        workload=Workload(jobs=table),
        scheduler=Scheduler(place=place),
        grain=Grain(),
        seed=seed,
    )
    laid = lay_out(table, cluster, costs, jitter=jitter)
    extra = {"decide_s": 0.25, "wall_s": 1.5, "overruns": 0}
    history = history_of(run, world, failed, *laid)
    return with_bound(Record(run=run, history=history, costs=costs, extra=extra), bound_share)


def history_of(run, world, failed, done, rounds):
    """What a journal of these events would tell."""
    jobs, live = run.workload.jobs, world == "live"
    finish = np.full(len(jobs), -1, dtype=np.int64)
    for event in rounds:
        if event.finished and event.job not in failed:
            finish[event.job] = event.time_ns
    lost = {(j, jobs[j].rounds - 1) for j in failed}
    return History(
        header=Header(
            run.name,
            world,
            run.scheduler.place,
            "1",
            run.seed,
            tuple(job.name for job in jobs),
            tuple(device.name for device in run.cluster.devices),
        ),
        timeline=Timeline.from_events(e for e in done if (e.job, e.round) not in lost),
        finish_ns_J=finish,
        failed=dict.fromkeys(failed, "RuntimeError: out of luck"),
        rounds=rounds if live else [],
        saved={
            j: ParamsSaved(int(finish[j]), j, f"{j:064x}", "cpu-avx2")
            for j in range(len(jobs))
            if live and finish[j] >= 0
        },
    )


def with_bound(record, share):
    """The record with bounds at ``share`` of its own values (None: no bound)."""
    if share is None:
        return replace(record, bound=None)
    values = schedule_values(record)
    bound = Bound(
        weighted_jct_s=values["weighted_jct_s"] * share,
        makespan_s=values["makespan_s"] * share,
        weighted_jct_by="interval LP",
        makespan_by="critical path",
    )
    return replace(record, bound=bound)
