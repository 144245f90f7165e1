"""Write a run as one YAML file that needs no other: ``run.yaml`` of a result folder.

``load_run`` of the text gives an equal run, whatever folder the file lies in. Times are written as
whole nanoseconds, rates and costs as the shortest decimal that reads back equal, jobs with the
seeds they had, costs of a trace as profile rows. ``base`` is written unchanged; a caller that wants
apps to be found from any working folder resolves a run whose ``base`` is absolute. Every line is a
key and a JSON value, which YAML reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from warren.model.cluster import Cluster, Emulate, Host, Local, Network
from warren.model.costs import ProfileRow
from warren.model.job import EpochCost, Job, Workload
from warren.model.measured import Overheads, Switching
from warren.model.run import VERIFY, Run, Truth


def dump_run(run: Run) -> str:
    """Return the resolved run as YAML text; ``load_run`` of it gives ``run`` again."""
    return "".join(f"{line}\n" for line in _lines(run))


def dump_profiles(rows: Iterable[ProfileRow], remark: str = "") -> str:
    """Return the text of a file that ``profiles:`` of a run can name; ``remark`` is one line."""
    head = f"# {remark}\nformat: 1\n" if remark else "format: 1\n"
    return head + "".join(f"{_json(row.model)}: {_json(_profile(row))}\n" for row in rows)


def _lines(run: Run) -> Iterator[str]:
    """Yield the lines of a run; a resume compares their hash, so their order is part of them."""
    yield "format: 1"
    yield f"name: {_json(run.name)}"
    yield f"base: {_json(run.base)}"
    yield f"seed: {run.seed}"
    yield f"grain: {_json(run.grain.text)}"
    # Defaults are left out here and below: the reader fills them in.
    if run.verify != VERIFY:
        yield f"verify: {run.verify}"
    scheduler = {**asdict(run.scheduler)}
    # In a run file these stand under ``policy``, not under ``scheduler``.
    options, others = scheduler.pop("options"), scheduler.pop("other_options")
    if others:
        options = {**({"place": options} if options else {}), **others}
    yield f"scheduler: {_json(_stated(scheduler))}"
    if options:
        yield f"policy: {_json(options)}"
    if run.truth != Truth():
        yield f"truth: {_json(_truth(run.truth))}"
    yield from _cluster(run.cluster)
    if run.profiles:
        yield "profiles:"
        for row in run.profiles:
            yield f"  {_json(row.model)}: {_json(_profile(row))}"
    yield from _jobs("workload", run.workload)
    if run.history is not None:
        yield from _jobs("history", run.history)


def _truth(truth: Truth) -> dict[str, Any]:
    stated = asdict(truth)
    absences = [
        _stated(
            {
                "host": one.host,
                "from": f"{one.from_ns} ns",
                "until": None if one.until_ns is None else f"{one.until_ns} ns",
            }
        )
        for one in truth.absences
    ]
    after = {name: list(others) for name, others in truth.after.items()}
    return _stated({**stated, "absences": absences or None, "after": after or None})


def _jobs(key: str, workload: Workload) -> Iterator[str]:
    yield f"{key}:"
    if workload.notes:
        yield f"  notes: {_json(list(workload.notes))}"
    yield "  jobs:"
    for job in workload.jobs:
        yield f"  - {_json(_job(job))}"


def _cluster(cluster: Cluster) -> Iterator[str]:
    yield "cluster:"
    yield f"  network: {_json(_network(cluster.network))}"
    yield f"  engine: {_json({'ray': cluster.ray}) if cluster.ray else cluster.engine}"
    if cluster.emulate is not None:
        yield f"  emulate: {_json(_emulate(cluster.emulate))}"
    if cluster.local != Local():
        yield f"  local: {_json(_local(cluster.local))}"
    if cluster.overheads is not None:
        yield f"  overheads: {_json({'constants': _overheads(cluster.overheads)})}"
    if cluster.switching is not None:
        yield f"  switching: {_json(_switching(cluster.switching))}"
    yield "  device_types:"
    for kind in cluster.types:
        yield f"    {_json(kind.name)}: {_json(_stated({'memory': kind.memory_bytes}))}"
    yield "  hosts:"
    kinds = _kinds_by_host(cluster)
    for host in cluster.hosts:
        yield f"  - {_json(_host(host, kinds.get(host.name, {})))}"


def _emulate(emulate: Emulate) -> dict[str, Any]:
    return _stated(
        {
            "time_scale": emulate.time_scale,
            "jitter": emulate.jitter or None,
            "slower": dict(emulate.slower) or None,
        }
    )


def _network(network: Network) -> dict[str, Any]:
    measured = _stated({"outer": network.outer_bps, "inner": network.inner_bps})
    # Each network model reads its own fields alone; another one's are refused.
    if network.model == "fluid":
        stated: dict[str, Any] = {"model": network.model, "xi2": network.xi2_s, **measured}
        if network.latency_s:
            stated["latency"] = network.latency_s
        if network.class_weights is not None:
            stated["classes"] = {"weights": list(network.class_weights)}
        return stated
    if network.model != "contention":
        return {"model": network.model}
    ring = {"xi1": network.xi1, "xi2": network.xi2_s, "alpha": network.alpha}
    return {"model": network.model, **ring, "reading": network.reading, **measured}


def _local(local: Local) -> dict[str, Any]:
    stated = {"look_ahead": local.look_ahead, "pin": local.pin, "memory": local.memory_bytes}
    spilled = {
        "spill": local.spill or None,
        "disk_ratio": local.disk_ratio,
        "model_on_disk": local.model_on_disk,
    }
    lease = None if local.lease_ns is None else _ns(local.lease_ns)
    rest = {
        "log_limit": local.log_bytes, "testbed": local.testbed, "lease": lease, **spilled
    }  # fmt: skip
    return _stated({**stated, **rest})


def _ns(time_ns: int) -> str | None:
    """Return a time in its written form; None, which is left out, for 0."""
    return f"{time_ns} ns" if time_ns else None


def _overheads(overheads: Overheads) -> dict[str, Any]:
    return _stated(
        {
            "cores": overheads.cores,
            # Times as whole nanoseconds, rates as the decimal that reads back equal.
            "dispatch": f"{overheads.dispatch_ns} ns",
            "task_cpu": f"{overheads.task_cpu_ns} ns",
            "round_cpu": f"{overheads.round_cpu_ns} ns",
            "task_cpu_rate": _bytes_per_s(overheads.task_cpu_bytes_per_s),
            "round_cpu_rate": _bytes_per_s(overheads.round_cpu_bytes_per_s),
            "slowdown": overheads.slowdown,
            "ring_start": _ns(overheads.ring_start_ns),
            "ring_rank": _ns(overheads.ring_rank_ns),
            "ring_move": _ns(overheads.ring_move_ns),
        }
    )


def _switching(switching: Switching) -> dict[str, Any]:
    if switching.scheme:
        return {"scheme": switching.scheme, "bus": _bytes_per_s(switching.bus_bytes_per_s)}
    return {"times": {kind: f"{time_ns} ns" for kind, time_ns in switching.time_ns.items()}}


def _bytes_per_s(rate: float | None) -> str | None:
    """Return a rate in its written form; ``repr`` is the shortest decimal that reads back equal."""
    return None if rate is None else f"{rate!r} B/s"


def _kinds_by_host(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Count the devices of each type, by host."""
    kinds: dict[str, dict[str, int]] = {}
    for device in cluster.devices:
        counts = kinds.setdefault(device.host, {})
        # Devices come in the order of the file, so types do too.
        counts[device.type] = counts.get(device.type, 0) + 1
    return kinds


def _host(host: Host, devices: dict[str, int]) -> dict[str, Any]:
    return _stated(
        {
            "name": host.name,
            "devices": devices,
            "memory": host.memory_bytes,
            "nic": host.nic_bps,
            "intra": host.intra_bps,
            "disk": _bytes_per_s(host.disk_bytes_per_s),
            "opportunistic": host.opportunistic or None,
            "price": host.price,
        }
    )


def _profile(row: ProfileRow) -> dict[str, Any]:
    return _stated(
        {
            "model": row.model_bytes,
            "memory": row.memory_bytes,
            "batch": row.batch,
            "comp": dict(row.comp_s),
            "sync": dict(row.sync_s),
            "overhead": dict(row.overhead_s) or None,
            "switch": dict(row.switch_s) or None,
            "build": dict(row.build_s) or None,
            "step": row.step_s or None,
            "source": dict(row.source),
        }
    )


def _job(job: Job) -> dict[str, Any]:
    return _stated(
        {
            "name": job.name,
            "app": job.app,
            "model": job.model,
            "cost": job.cost if job.epoch_cost is None else _epoch_cost(job.epoch_cost),
            "sync": job.sync,
            "scale": job.scale,
            "rounds": job.rounds,
            "batch": job.batch,
            "weight": job.weight,
            "arrival": f"{job.arrival_ns} ns",
            "user": job.user or None,
            "group": job.group or None,
            "seed": job.seed,
            "numerics": job.numerics,
            "types": list(job.types) or None,
            "evaluate": asdict(job.evaluate) if job.evaluate else None,
            "stop": _stated(asdict(job.stop)) if job.stop else None,
            "schedule": {"steps": list(job.schedule.steps)} if job.schedule else None,
            "checkpoint": asdict(job.checkpoint) if job.checkpoint else None,
            "task_limit": f"{job.task_limit_ns} ns",
            "nan_loss": job.nan_loss,
            "params": dict(job.params) or None,
            "class": job.flow_class or None,
            "servers": _servers(job),
            "workers": _workers(job),
        }
    )


def _workers(job: Job) -> Any:
    if not job.worker_hosts:
        return job.workers
    return _stated({"hosts": list(job.worker_hosts), "processes": job.workers})


def _epoch_cost(cost: EpochCost) -> dict[str, Any]:
    return _stated(
        {
            "items": cost.items,
            "item": dict(cost.item_s),
            "model": cost.model_bytes,
            "batch": cost.batch,
            "data": cost.data_bytes,
        }
    )


def _servers(job: Job) -> dict[str, Any] | None:
    if not job.server_hosts:
        return None
    sizes = list(job.server_bytes) or None
    return _stated({"hosts": list(job.server_hosts), "bytes": sizes})


def _stated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None: omitted ones read back as the default."""
    return {key: value for key, value in values.items() if value is not None}


def _json(value: Any) -> str:
    """Return a value as JSON, with YAML's escapes for characters that do not print."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # JSON itself escapes control characters below 0x20; 0x7f it leaves, and YAML refuses it.
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
