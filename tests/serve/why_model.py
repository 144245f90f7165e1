"""Why a job waits by brute force: each cause is taken away alone, in the slow model of the queue.

``strict`` is that of ``queue_model``. For ``backfill`` the jobs of one user are looked at in the
order of submission, on GPUs of one type, with all seconds tried (``backfill_model``).
"""

from __future__ import annotations

from copy import deepcopy

from backfill_model import FAR, Busy, Wanted, busy, first_start
from queue_model import Model, ModelAttempt, ModelHost, ModelJob

from warren.serve.queue.state import Queue
from warren.serve.records.jobs import ServiceJob

CAUSES = ("held", "dependency", "quota", "host", "drained", "foreign", "order", "devices")


def model_of(queue: Queue) -> Model:
    """The model in the state of a queue."""
    model = Model()
    model.users, model.quotas = dict(queue.users), dict(queue.quotas)
    for name, state in queue.machines.items():
        foreign = {use.id for use in state.uses.values() if use.foreign}
        model.hosts[name] = ModelHost(state.machine, state.connected, set(state.drained), foreign)
    types = {one.id: one.type for state in queue.machines.values() for one in state.machine.devices}
    for job in queue.jobs.values():
        model.add(job.id, job.array, job.user, job.spec)
        made = model.jobs[job.id]
        made.state, made.priority = str(job.state), job.priority
        made.cancelled = job.cancelled_by is not None
        made.attempts = [
            ModelAttempt(
                one.host,
                types[one.devices[0]],
                one.devices,
                one.begun_ns,
                one.started_ns is not None,
                one.ended_ns,
                one.ran,
            )
            for one in job.attempts
        ]
    return model


def take_away(model: Model, job: ModelJob, cause: str, now_ns: int) -> None:
    """Take one cause away."""
    match cause:
        case "held":
            job.state = "queued"
        case "dependency":
            job.after = {}
        case "quota":
            names = {"each", f"user:{job.user}"}
            if job.user in model.users:
                names |= {f"group:{one}" for one in model.users[job.user].groups}
            model.quotas = {key: one for key, one in model.quotas.items() if key[0] not in names}
        case "host":
            for host in model.hosts.values():
                host.connected = True
        case "drained":
            for host in model.hosts.values():
                host.drained = set()
        case "foreign":
            for host in model.hosts.values():
                host.foreign = set()
        case "order":
            job.priority = max(one.priority for one in model.jobs.values()) + 1
        case "devices":
            for one in model.running():
                one.state, one.attempts[-1].ended_ns = "held", now_ns


def starts_strict(model: Model, job: str, causes: tuple[str, ...], now_ns: int) -> bool:
    """Tell whether a job starts now if these causes are not there."""
    model = deepcopy(model)
    for cause in causes:
        if cause != "held" or model.jobs[job].state == "held":
            take_away(model, model.jobs[job], cause, now_ns)
    return any(begun[0] == job for begun in model.strict(now_ns))


def starts_backfill(model: Model, job: str, causes: tuple[str, ...], now_s: int) -> bool:
    """Tell the same under backfill: a job before it keeps what it needs from its start on."""
    model = deepcopy(model)
    for cause in causes:
        if cause != "held" or model.jobs[job].state == "held":
            take_away(model, model.jobs[job], cause, now_s * 10**9)
    hosts: dict[str, list[str]] = {}
    spans: dict[str, list[Busy]] = {}
    # The smallest host is the first to be tried.
    for name, host in sorted(model.hosts.items(), key=lambda it: len(it[1].machine.devices)):
        usable = host.connected and None not in host.drained
        shut = host.drained | host.foreign
        hosts[name] = [one.id for one in host.machine.devices if usable and one.id not in shut]
        for one in host.machine.devices:
            spans[one.id] = [busy_until(it, now_s) for it in model.holders(one.id)]
    for one in sorted(model.ready(), key=lambda it: -it.priority):
        wanted = wanted_of(one)
        found = first_start(hosts, spans, wanted, now_s)
        if found is None:
            continue
        if one.id == job:
            return found[0] == now_s
        for device in found[1]:
            spans[device].append(busy(wanted, found[0]))
    return False


def wanted_of(job: ModelJob | ServiceJob) -> Wanted:
    limit = job.spec.time_limit_s
    return Wanted(job.id, job.spec.devices, None if limit is None else int(limit), job.spec.share)


def busy_until(job: ModelJob, now_s: int) -> Busy:
    limit = job.spec.time_limit_s
    end = FAR if limit is None else job.attempts[-1].begun_ns // 10**9 + int(limit)
    return Busy(now_s, max(end, now_s + 1), job.spec.share)
