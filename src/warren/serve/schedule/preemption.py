"""Which running jobs are asked to leave their devices, so that a waiting job can start.

A waiting job may take devices from jobs of lower priority. Under a place policy that looks at
running jobs again, it may take them from jobs of its own priority, too: the policy is asked what it
would run on the devices that are free or can be taken. A waiting job that is among these takes
devices from running jobs that are not.

Only jobs that can come back are asked, after ``minimum_s`` of running and at most ``daily`` times
in 24 hours. All victims are on one host, and their devices let the job start, under its quotas and
after all jobs that wait before it. Of all choices the one is taken that costs least: by the level
of the certificates first, then by the device time that is lost, saving and starting included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.model.units import NS_PER_S
from warren.serve.queue.requests import why_not_preempted
from warren.serve.queue.state import Queue
from warren.serve.queue.waiting import JobGroup, need_of
from warren.serve.records.events import PreemptAsked
from warren.serve.records.jobs import Attempt, ServiceJob, is_app_run, resume_of
from warren.serve.schedule.decide import order_of
from warren.serve.schedule.placement import fits_host, fitting_types
from warren.serve.schedule.policy_order import PlacePolicy, asked_about, waiting_by_priority
from warren.serve.schedule.quotas import QuotaRoom

DAY_NS: Final = 86_400 * NS_PER_S
"""Time in which preemptions of a job are counted, in nanoseconds."""
SAVE_S: Final = 30.0
"""Time that a job is expected to take to save, before any was measured, in seconds."""
TRIED_MOST: Final = 32
"""Most groups of waiting jobs that find no victims, after which no other is looked at."""
SERVED_MOST: Final = 16
"""Most waiting jobs that get devices by one look; the next look goes on."""
VICTIMS_MOST: Final = 256
"""Most running jobs that are looked at, those that cost least."""
_LEVELS: Final = {"exact": 0, "equal order": 1, "restarts": 2, None: 3}
"""Rank of a certificate's level as that of a victim, the lower the sooner; None: no certificate."""


class PreemptionRules(NamedTuple):
    """Limits of preemption.

    ``minimum_s``: running time of an attempt before which it is left alone, in seconds. ``daily``:
    most preemptions of a job in 24 hours. ``loss_s``: most running time that a policy may have a
    job of equal priority lose at once, in seconds.
    """

    minimum_s: float = 600.0
    daily: int = 4
    loss_s: float = 1800.0


RULES: Final = PreemptionRules()
"""The limits where the service names none."""


class Victim(NamedTuple):
    """A running job that may be asked to leave, and its cost.

    ``level``: rank of its certificate. ``lost_s``: running time that it would lose. ``cost_s``:
    device time of the loss, of saving and of starting again, in device seconds; more than 0.
    """

    job: ServiceJob
    host: str
    type: str
    devices: int
    level: int
    lost_s: float
    cost_s: float


class _Choice(NamedTuple):
    """Victims on one host by which a waiting job can start; no victims if it has room already."""

    level: int
    cost_s: float
    host: str
    type: str
    victims: tuple[Victim, ...]


def preemptions(queue: Queue, now_ns: int, rules: PreemptionRules = RULES) -> list[PreemptAsked]:
    """Return which running jobs are asked to leave now; call it when ``decide`` has started all.

    Parameters
    ----------
    queue
        The queue.
    now_ns
        The present, in nanoseconds since 1970.
    rules
        The limits.
    """
    if not queue.waiting.groups:
        return []
    victims = candidates(queue, now_ns, rules)
    if not victims:
        return []
    victims.sort(key=lambda one: (one.level, one.cost_s))
    return _PreemptionPass(queue, now_ns, rules, victims[:VICTIMS_MOST]).run()


def candidates(queue: Queue, now_ns: int, rules: PreemptionRules = RULES) -> list[Victim]:
    """Return the running jobs that may be asked to leave, by the rules that hold for each alone."""
    found = []
    for job_id in queue.running:
        job = queue.jobs[job_id]
        victim = _victim(queue, job, now_ns)
        if victim is not None and _may_be_asked(job, now_ns, rules):
            found.append(victim)
    return found


def _may_be_asked(job: ServiceJob, now_ns: int, rules: PreemptionRules) -> bool:
    """Tell whether a job that runs has run for the minimum, and was asked rarely enough today."""
    started_ns = job.attempts[-1].started_ns
    if started_ns is None or now_ns - started_ns < rules.minimum_s * NS_PER_S:
        return False
    asked = sum(
        one.preempt_ns is not None and now_ns - one.preempt_ns < DAY_NS for one in job.attempts
    )
    return asked < rules.daily


def _victim(queue: Queue, job: ServiceJob, now_ns: int) -> Victim | None:
    """Return a running job as a victim; None if it cannot come back, or would free no device."""
    attempt, resume, held = job.attempts[-1], resume_of(job.spec), queue.running[job.id]
    machine = queue.machines[attempt.host]
    if (
        resume is None
        or resume.certificate == "loses"
        or job.spec.share
        or attempt.preempt_ns is not None
        or why_not_preempted(job) is not None
        or len(held) != 1
        or not set(attempt.devices) <= set(machine.usable.get(held[0].type, ()))
    ):
        return None
    level = 0 if is_app_run(job.spec) else _LEVELS[resume.certificate]
    lost_s = expected_loss_s(job, level, now_ns)
    around_s = _saving_s(job.attempts, resume.grace_s) + _starting_s(attempt)
    devices = held[0].devices
    cost_s = devices * (lost_s + around_s + 1.0)
    return Victim(job, attempt.host, held[0].type, devices, level, lost_s, cost_s)


def expected_loss_s(job: ServiceJob, level: int, now_ns: int) -> float:
    """Return the running time that a job would lose, in seconds, as its latest preemption shows.

    A job that has never been preempted loses what it has run since its start. With a certificate
    that it comes back exactly, or with equal data, it loses nothing.
    """
    started_ns = job.attempts[-1].started_ns
    ran_s = 0.0 if started_ns is None else max(0, now_ns - started_ns) / NS_PER_S
    last = next((one for one in reversed(job.attempts) if one.saved is not None), None)
    if last is None:
        return 0.0 if level <= _LEVELS["equal order"] else ran_s
    if last.saved:
        return 0.0
    return ran_s if last.lost_s is None else min(ran_s, last.lost_s)


def _saving_s(attempts: Sequence[Attempt], grace_s: float) -> float:
    """Return how long a job takes to save: the longest time that was measured."""
    measured = [one.save_s for one in attempts if one.save_s is not None]
    return max(measured) if measured else min(SAVE_S, grace_s)


def _starting_s(attempt: Attempt) -> float:
    """Return how long an attempt took to start."""
    started_ns = attempt.begun_ns if attempt.started_ns is None else attempt.started_ns
    return max(0, started_ns - attempt.begun_ns) / NS_PER_S


class _PreemptionPass:
    """One pass over the waiting jobs in their order."""

    def __init__(
        self, queue: Queue, now_ns: int, rules: PreemptionRules, victims: Sequence[Victim]
    ) -> None:
        self._queue = queue
        self._now_ns = now_ns
        self._rules = rules
        self._victims = {one.job.id: one for one in victims}
        self._quotas = QuotaRoom(queue)
        self._room = _rooms(queue, self._quotas)
        self._kept: set[tuple[str, str]] = set()
        self._wanted: dict[int, frozenset[str]] = {}
        self._asked: list[PreemptAsked] = []

    def run(self) -> list[PreemptAsked]:
        jobs = order_of(self._queue, self._now_ns)
        failed = served = 0
        while self._victims and failed < TRIED_MOST and served < SERVED_MOST:
            first = jobs.next()
            if first is None:
                break
            group, job = first
            choice = self._choice(group, job)
            if choice is None:
                failed += 1
                self._keep(group)
                jobs.drop()
            else:
                served += bool(choice.victims)
                self._take(choice, group, job)
                jobs.take(choice.type, group.need.devices)
        return self._asked

    def _choice(self, group: JobGroup, job: ServiceJob) -> _Choice | None:
        """Return the victims by which a job can start, which cost least; maybe none are needed."""
        need = group.need
        if need.share:
            return None
        may: dict[tuple[str, str], list[Victim]] = {}
        for one in self._allowed(job):
            may.setdefault((one.host, one.type), []).append(one)
        found: list[_Choice] = []
        for device_type in fitting_types(self._queue, need):
            for host in self._queue.hosts[device_type]:
                if (host, device_type) in self._kept or not fits_host(self._queue, need, host):
                    continue
                missing = need.devices - self._room.get((host, device_type), 0)
                some = may.get((host, device_type), [])
                victims = self._cheapest(group, device_type, some, missing)
                if victims is not None:
                    level = max((one.level for one in victims), default=-1)
                    cost_s = sum(one.cost_s for one in victims)
                    found.append(_Choice(level, cost_s, host, device_type, victims))
        return min(found, key=lambda one: one[:2], default=None)

    def _allowed(self, job: ServiceJob) -> list[Victim]:
        """Return the jobs from which a waiting job may take devices."""
        return [
            one
            for one in self._victims.values()
            if (one.job.priority < job.priority or self._is_preferred(job, one))
            and not self._was_preempted_for(job, one.job)
        ]

    def _is_preferred(self, job: ServiceJob, victim: Victim) -> bool:
        """Tell whether the policy would run a job, but not a running one of equal priority."""
        policy: PlacePolicy | None = self._queue.policy
        if policy is None or not policy.takes_back or victim.job.priority != job.priority:
            return False
        if victim.lost_s > self._rules.loss_s:
            return False
        wanted = self._wanted_at(job.priority, policy)
        return job.id in wanted and victim.job.id not in wanted

    def _was_preempted_for(self, job: ServiceJob, other: ServiceJob) -> bool:
        """Tell whether a job left its devices for another one less than the minimum run ago."""
        last = job.attempt
        if last is None or last.preempt_for != other.id or last.preempt_ns is None:
            return False
        since_ns = max(last.preempt_ns, last.ended_ns or 0)
        return self._now_ns - since_ns < self._rules.minimum_s * NS_PER_S

    def _wanted_at(self, priority: int, policy: PlacePolicy) -> frozenset[str]:
        """Return the jobs of a priority that the policy would run on devices that can be had."""
        found = self._wanted.get(priority)
        if found is None:
            lower = [one for one in self._victims.values() if one.job.priority < priority]
            equal = [
                one
                for one in self._victims.values()
                if one.job.priority == priority and one.lost_s <= self._rules.loss_s
            ]
            devices: dict[str, dict[str, int]] = {}
            for (host, kind), room in self._room.items():
                devices.setdefault(host, {})[kind] = room
            for one in (*lower, *equal):
                kinds = devices.setdefault(one.host, {})
                kinds[one.type] = kinds.get(one.type, 0) + one.devices
            waiting = asked_about(self._queue, waiting_by_priority(self._queue)[priority])
            jobs = [one for one in waiting if _fits(self._queue, one, devices)]
            jobs += [one.job for one in equal]
            jobs.sort(key=lambda job: job.order)
            first = next(policy.turns(self._queue, jobs, self._now_ns, devices), [])
            found = self._wanted[priority] = frozenset(one.id for one in first)
        return found

    def _cheapest(
        self, group: JobGroup, device_type: str, some: Sequence[Victim], missing: int
    ) -> tuple[Victim, ...] | None:
        """Return the cheapest victims of one host and type that let a job start, by quotas, too."""
        found = cheapest(some, missing)
        if found is None or self._over(group, device_type, found) <= 0:
            return found
        # The quotas that are full need victims that count for them.
        keys = [
            key
            for key in self._quotas.keys(group.user, device_type)
            if self._quotas.used(key) + group.need.devices > self._quotas.limit(key)
        ]
        own = [one for one in some if set(keys) <= set(self._quotas.keys(one.job.user, one.type))]
        found = cheapest(own, max(missing, self._over(group, device_type, ())))
        return None if found is None or self._over(group, device_type, found) > 0 else found

    def _over(self, group: JobGroup, device_type: str, victims: Sequence[Victim]) -> int:
        """Return how many devices a job lacks under its quotas once the victims have left."""
        over = 0
        for key in self._quotas.keys(group.user, device_type):
            left = sum(
                one.devices for one in victims if key in self._quotas.keys(one.job.user, one.type)
            )
            used = self._quotas.used(key) - left + group.need.devices
            over = max(over, used - self._quotas.limit(key))
        return over

    def _take(self, choice: _Choice, group: JobGroup, job: ServiceJob) -> None:
        """Ask the victims to leave, and keep their devices for the job."""
        freed = 0
        for one in choice.victims:
            del self._victims[one.job.id]
            freed += one.devices
            self._quotas.take(one.job.user, one.type, -one.devices)
            self._asked.append(
                PreemptAsked(
                    time_ns=self._now_ns,
                    job=one.job.id,
                    attempt=one.job.attempts[-1].number,
                    reason=self._reason(job, one.job),
                    for_job=job.id,
                )
            )
        self._quotas.take(group.user, choice.type, group.need.devices)
        place = choice.host, choice.type
        self._room[place] = self._room.get(place, 0) + freed - group.need.devices

    def _reason(self, job: ServiceJob, victim: ServiceJob) -> str:
        whose = f"job {job.id} of {job.user}"
        if victim.priority < job.priority:
            return f"{whose} has a higher priority"
        return f"{whose} goes first by {self._queue.policy.name}"

    def _keep(self, group: JobGroup) -> None:
        """Keep the hosts on which a job may start later from jobs after it."""
        for device_type in fitting_types(self._queue, group.need):
            if self._quotas.never(group.user, device_type, group.need.devices) is not None:
                continue
            for name in self._queue.hosts[device_type]:
                usable = self._queue.machines[name].usable.get(device_type, ())
                if len(usable) >= group.need.devices and fits_host(self._queue, group.need, name):
                    self._kept.add((name, device_type))


def cheapest(victims: Sequence[Victim], missing: int) -> tuple[Victim, ...] | None:
    """Return the victims that together free enough devices and cost least; None if all are few.

    The worst level among them counts first, then the sum of their costs. So none could be left out.
    """
    if missing <= 0:
        return ()
    for level in sorted({one.level for one in victims}):
        # The least cost of each number of freed devices, and by which victims.
        best: list[tuple[float, tuple[Victim, ...]] | None] = [(0.0, ()), *[None] * missing]
        for one in (one for one in victims if one.level <= level):
            for freed in range(missing, -1, -1):
                so_far = best[freed]
                if so_far is None:
                    continue
                then = min(missing, freed + one.devices)
                cost_s, known = so_far[0] + one.cost_s, best[then]
                if known is None or cost_s < known[0]:
                    best[then] = cost_s, (*so_far[1], one)
        enough = best[missing]
        if enough is not None:
            return enough[1]
    return None


def _rooms(queue: Queue, quotas: QuotaRoom) -> dict[tuple[str, str], int]:
    """Return how many devices of each host and type are free, or left by jobs that are ending.

    Jobs that are ending are given back to the quotas.
    """
    ending = set()
    for job_id, held in queue.running.items():
        job = queue.jobs[job_id]
        if job.cancelled_by is not None or job.attempts[-1].preempt_ns is not None:
            ending.add(job_id)
            for one in held:
                if one.type in queue.types:
                    quotas.take(job.user, one.type, -one.devices)
    return {
        (name, kind): sum(ending.issuperset(state.holders.get(one, ())) for one in devices)
        for name, state in queue.machines.items()
        for kind, devices in state.usable.items()
    }


def _fits(queue: Queue, job: ServiceJob, devices: dict[str, dict[str, int]]) -> bool:
    """Tell whether some host has enough of these devices for a job."""
    need = need_of(job)
    return any(
        count >= need.devices and fits_host(queue, need, host)
        for kind in fitting_types(queue, need)
        for host, counts in devices.items()
        for of, count in counts.items()
        if of == kind
    )
