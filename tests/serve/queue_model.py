"""What the queue of the service is to do, said once more, slowly: no index, no fold, no memory.

It shares the values of ``serve/records`` with the queue and no code. Everything is worked out from
the list of jobs each time it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warren.serve.records.jobs import CommandSpec
from warren.serve.records.machines import Machine
from warren.serve.records.users import Quota, User

DAY_NS = 86_400 * 10**9
SHARERS = 4
START_TRIES = 3


@dataclass
class ModelAttempt:
    host: str
    type: str
    devices: tuple[str, ...]
    begun_ns: int
    started_ns: int | None = None
    ended_ns: int | None = None
    ran: bool = True
    asked: bool = False
    cause: str = ""

    @property
    def started(self) -> bool:
        return self.started_ns is not None


@dataclass
class ModelJob:
    id: str
    array: str | None
    user: str
    spec: CommandSpec
    priority: int
    after: dict[str, str]
    state: str
    cancelled: bool = False
    tied: str | None = None
    attempts: list[ModelAttempt] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.state in ("finished", "failed", "cancelled")


@dataclass
class ModelHost:
    machine: Machine
    connected: bool = True
    drained: set[str | None] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)


class Model:
    """The queue in words of one syllable."""

    def __init__(self) -> None:
        self.jobs: dict[str, ModelJob] = {}
        self.hosts: dict[str, ModelHost] = {}
        self.users: dict[str, User] = {}
        self.quotas: dict[tuple[str, str], Quota] = {}

    # Jobs

    def add(self, job: str, array: str | None, user: str, spec: CommandSpec) -> None:
        after: dict[str, str] = {}
        for one in spec.after:
            after[one.job] = "ok" if "ok" in (one.when, after.get(one.job)) else "any"
        state = "held" if spec.held else "queued"
        self.jobs[job] = ModelJob(job, array, user, spec, spec.priority, after, state)

    def members(self, target: str) -> list[ModelJob]:
        return [job for job in self.jobs.values() if target in (job.id, job.array)]

    def settle(self) -> None:
        """Fail all jobs whose dependencies can no longer hold."""
        found = True
        while found:
            found = False
            for job in self.jobs.values():
                if job.state in ("queued", "held") and any(
                    when == "ok" and any(one.state in ("failed", "cancelled") for one in members)
                    for target, when in job.after.items()
                    if (members := self.members(target))
                ):
                    job.state, found = "failed", True

    def depends(self, job: ModelJob) -> bool:
        return any(not one.ended for target in job.after for one in self.members(target))

    def ready(self) -> list[ModelJob]:
        return [
            job for job in self.jobs.values() if job.state == "queued" and not self.depends(job)
        ]

    def cancel(self, job: ModelJob) -> None:
        if not job.ended:
            job.cancelled = True
            if job.state != "running":
                job.state = "cancelled"

    def end(self, job: ModelJob, now_ns: int, cause: str, code: int | None, ran: bool) -> None:
        """End the attempt of a running job."""
        last = job.attempts[-1]
        if cause == "exit" and code in (75, 85, 99):
            cause = "requeue"
        if cause == "cancel" and last.asked and not job.cancelled:
            cause = "preempt"
        last.ended_ns, last.ran, last.cause = now_ns, ran, cause
        if ran and job.spec.resume is not None:
            job.tied = last.host
        failures = sum(one.ran and one.cause not in ("preempt", "requeue") for one in job.attempts)
        unstarted = [one.ran for one in job.attempts][-START_TRIES:]
        if cause == "exit" and code == 0:
            job.state = "finished"
        elif job.cancelled or cause == "cancel":
            job.state = "cancelled"
        elif cause == "preempt":
            job.state = "queued"
        elif cause == "requeue":
            job.state = "failed" if self.in_vain(job) else "queued"
        elif not ran:
            job.state = "failed" if unstarted == [False] * START_TRIES else "queued"
        elif cause == "time" or failures > job.spec.retries:
            job.state = "failed"
        else:
            job.state = "queued"

    def in_vain(self, job: ModelJob) -> bool:
        """Tell whether the last ten attempts all asked to be started again within 10 s."""
        last = job.attempts[-10:]
        return len(last) == 10 and all(
            one.cause == "requeue"
            and (one.ended_ns or 0) - (one.started_ns or one.begun_ns) < 10 * 10**9
            for one in last
        )

    def running(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state == "running"]

    def join(self, machine: Machine, recorded: set[str], now_ns: int) -> None:
        """A host is back, with a record of some attempts."""
        host = self.hosts.setdefault(machine.name, ModelHost(machine))
        again = host.machine.boot_id != machine.boot_id
        host.machine, host.connected = machine, True
        for job in self.running():
            last = job.attempts[-1]
            if last.host == machine.name and f"{job.id}.{len(job.attempts)}" not in recorded:
                if again or last.started:
                    self.end(job, now_ns, "host", None, True)
                elif job.cancelled:
                    self.end(job, now_ns, "cancel", None, False)

    # Devices

    def holders(self, device: str) -> list[ModelJob]:
        return [job for job in self.running() if device in job.attempts[-1].devices]

    def free(self, host: ModelHost, kind: str, share: bool) -> list[str]:
        """Devices of a type on which a job may start, the best first."""
        if not host.connected or None in host.drained:
            return []
        found: list[tuple[int, int, str]] = []
        for place, device in enumerate(host.machine.devices):
            holders = self.holders(device.id)
            room = not holders or (
                share and len(holders) < SHARERS and all(job.spec.share for job in holders)
            )
            shut = device.id in host.drained | host.foreign
            if device.type == kind and room and not shut:
                found.append((-len(holders), place, device.id))
        return [device for _, _, device in sorted(found)]

    def types(self) -> list[str]:
        """All types, the least valuable first."""
        devices = [one for host in self.hosts.values() for one in host.machine.devices]
        memory = {one.type: (one.kind == "gpu", one.memory_bytes, one.type) for one in devices}
        return sorted(memory, key=lambda kind: memory[kind])

    def fitting(self, spec: CommandSpec) -> list[str]:
        kinds = {one.type: one.kind for host in self.hosts.values() for one in host.machine.devices}
        return [one for one in self.types() if spec.device_type in (None, one, kinds[one])]

    def held(self, users: list[str], kind: str) -> int:
        """Devices that users hold, of a type, a kind or any."""
        kinds = {one.type: one.kind for host in self.hosts.values() for one in host.machine.devices}
        return sum(
            len(job.attempts[-1].devices)
            for job in self.running()
            if job.user in users
            and kind in (job.attempts[-1].type, kinds[job.attempts[-1].type], "any")
        )

    def limits(self, user: str, kind: str) -> list[tuple[str, str, int, int]]:
        """Quotas for a user and a type: subject, type, limit and what is held."""
        general = next(
            one.kind
            for host in self.hosts.values()
            for one in host.machine.devices
            if one.type == kind
        )
        found = []
        for name in (kind, general, "any"):
            own = self.quotas.get((f"user:{user}", name)) or self.quotas.get(("each", name))
            if own:
                found.append((user, name, own.devices, self.held([user], name)))
            for group in self.users[user].groups if user in self.users else ():
                quota = self.quotas.get((f"group:{group}", name))
                if quota:
                    members = [one.name for one in self.users.values() if group in one.groups]
                    found.append((group, name, quota.devices, self.held(members, name)))
        return found

    # Order

    def use(self, user: str, now_ns: int) -> float:
        """Device time of a user, weighed: a minute at once, then by the clock, faded by halves."""
        total = 0.0
        life = 7 * DAY_NS
        for job in self.jobs.values():
            for attempt in job.attempts if job.user == user else ():
                end = now_ns if attempt.ended_ns is None else attempt.ended_ns
                # The integral of 2 ** -(age / life) over the time that it held its devices.
                old, new = (now_ns - attempt.begun_ns) / life, (now_ns - end) / life
                seconds = (2**-new - 2**-old) * life / 1e9 / 0.6931471805599453
                seconds += 60 * (attempt.ended_ns is None)
                total += seconds * len(attempt.devices) / self.count(attempt.type)
        return total / (self.users[user].weight if user in self.users else 1)

    def count(self, kind: str) -> int:
        devices = [one for host in self.hosts.values() for one in host.machine.devices]
        return sum(one.type == kind for one in devices) or 1

    def head(self, waiting: list[ModelJob], uses: dict[str, float]) -> ModelJob:
        """The first of waiting jobs in their order."""
        highest = max(job.priority for job in waiting)
        firsts: dict[str, ModelJob] = {}
        for job in waiting:
            if job.priority == highest:
                firsts.setdefault(job.user, job)
        place = {name: number for number, name in enumerate(self.jobs)}
        return min(firsts.values(), key=lambda job: (uses[job.user], place[job.id]))

    def strict(self, now_ns: int) -> list[tuple[str, str, tuple[str, ...]]]:
        """Job, host and devices of all that starts now, in strict order; they start here, too."""
        begun = []
        waiting = self.ready()
        uses = {job.user: self.use(job.user, now_ns) for job in waiting}
        shut_hosts: set[tuple[str, str]] = set()
        shut_quotas: set[tuple[str, str]] = set()
        while waiting:
            job = self.head(waiting, uses)
            waiting.remove(job)
            spec, count = job.spec, job.spec.devices
            place = self.place(job, shut_hosts, shut_quotas)
            if place is not None:
                host, kind, devices = place
                self.begin(job, host, devices, now_ns)
                weight = self.users[job.user].weight if job.user in self.users else 1
                uses[job.user] += 60 * count / self.count(kind) / weight
                begun.append((job.id, host, devices))
                continue
            for kind in self.fitting(spec):
                limits = self.limits(job.user, kind)
                if any(count > limit for _, _, limit, _ in limits):
                    continue
                full = [
                    (subject, name)
                    for subject, name, limit, held in limits
                    if held + count > limit or (subject, name) in shut_quotas
                ]
                if full:
                    shut_quotas.add(full[0])
                    continue
                for name, state in self.hosts.items():
                    usable = [
                        one.id
                        for one in state.machine.devices
                        if one.type == kind and one.id not in state.drained | state.foreign
                    ]
                    ready = state.connected and None not in state.drained
                    if ready and self.may_be_on(job, name) and len(usable) >= count:
                        shut_hosts.add((name, kind))
        return begun

    def may_be_on(self, job: ModelJob, host: str) -> bool:
        """Tell whether a job may run on a host, as far as its name goes."""
        return job.spec.host in (None, host) and job.tied in (None, host)

    def allows(self, job: ModelJob, host: str, devices: tuple[str, ...]) -> bool:
        """Tell whether a job may begin on devices, whatever the order."""
        kinds = {one.id: one.type for one in self.hosts[host].machine.devices}
        kind = kinds[devices[0]]
        return (
            job in self.ready()
            and kind in self.fitting(job.spec)
            and self.may_be_on(job, host)
            and len(set(devices)) == job.spec.devices
            and set(devices) <= set(self.free(self.hosts[host], kind, job.spec.share))
            and all(used + len(devices) <= most for _, _, most, used in self.limits(job.user, kind))
        )

    def begin(self, job: ModelJob, host: str, devices: tuple[str, ...], now_ns: int) -> None:
        kinds = {one.id: one.type for one in self.hosts[host].machine.devices}
        job.state = "running"
        job.attempts.append(ModelAttempt(host, kinds[devices[0]], devices, now_ns))

    def place(
        self, job: ModelJob, shut_hosts: set[tuple[str, str]], shut_quotas: set[tuple[str, str]]
    ) -> tuple[str, str, tuple[str, ...]] | None:
        count, share = job.spec.devices, job.spec.share
        failed = set()
        for attempt in reversed(job.attempts):
            if attempt.ran:
                break
            failed.add(attempt.host)
        for kind in self.fitting(job.spec):
            limits = self.limits(job.user, kind)
            if any(
                held + count > limit or (subject, name) in shut_quotas
                for subject, name, limit, held in limits
            ):
                continue
            found = []
            for place, (name, state) in enumerate(self.hosts.items()):
                free = self.free(state, kind, share)
                if (
                    self.may_be_on(job, name)
                    and len(free) >= count
                    and (
                        name,
                        kind,
                    )
                    not in shut_hosts
                ):
                    whole = [one for one in free if not self.holders(one)]
                    more = max(0, count - (len(free) - len(whole))) if share else 0
                    found.append(
                        (name in failed, more, len(whole), place, name, tuple(free[:count]))
                    )
            if found:
                return min(found)[4], kind, min(found)[5]
        return None
