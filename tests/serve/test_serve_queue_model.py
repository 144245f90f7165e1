"""The queue against its model: drawn requests and reports, in any order, again, and with kills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from queue_model import Model, ModelHost

from warren.serve.hosts.port import (
    AgentJoined,
    AgentLost,
    CommandEnded,
    CommandStarted,
    DevicesSeen,
    Report,
)
from warren.serve.queue import requests
from warren.serve.queue.refusals import Refusal
from warren.serve.queue.reports import events_of, forgettable
from warren.serve.queue.state import Queue
from warren.serve.records.events import AnyEvent
from warren.serve.records.jobs import CommandSpec, Dependency, JobState, Resume, Submission
from warren.serve.records.machines import DeviceUse, HostDevice, Machine
from warren.serve.records.users import Caller, Quota, User
from warren.serve.schedule.decide import decide
from warren.serve.schedule.reasons import why

USERS = ["ana", "ben", "eve"]
ROOT = Caller("root", "admin")
HOSTS = {
    "h1": [("g0", "gpu", "H100", 80), ("g1", "gpu", "H100", 80), ("g2", "gpu", "A100", 40)],
    "h2": [("k0", "gpu", "A100", 40), ("k1", "gpu", "A100", 40)],
    "h3": [("cpu:0", "cpu", "CPU", 0)],
}
NS = 10**9


def machine(name: str, boot: int) -> Machine:
    devices = tuple(HostDevice(*one) for one in HOSTS[name])  # type: ignore[arg-type]
    return Machine(name, devices, f"boot{boot}", 8, 1 << 30, "cgroup", "1")


def picture(queue: Queue) -> dict[str, Any]:
    """All of a queue that can be compared."""
    return {
        "jobs": {name: msgspec.to_builtins(job) for name, job in queue.jobs.items()},
        "waiting": queue.waiting.groups,
        "running": queue.running,
        "unmet": queue.dependencies.unmet,
        "holds": queue.holds,
        "quotas": queue.quotas,
        "users": queue.users,
        "types": queue.types,
        "names": queue.names,
        "keys": queue.keys,
        "number": queue.next_number,
        "usage": {user: queue.usage.of(user, 10**18) for user in USERS},
        "machines": {
            name: (one.machine, one.connected, one.drained, one.holders, one.open, one.roomy)
            for name, one in queue.machines.items()
        },
    }


class QueueMachine(RuleBasedStateMachine):
    """Draws what may happen to a queue, and compares it with the model after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue()
        self.model = Model()
        self.events: list[AnyEvent] = []
        self.now_ns = 10**18
        self.boots = dict.fromkeys(HOSTS, 1)
        self.recorded: dict[str, str] = {}
        """Attempts that their hosts have a record of, each with its host."""
        self.said: list[Report] = []

    def apply(self, events: Sequence[AnyEvent]) -> None:
        for event in events:
            self.queue.apply(event)
        self.events += events

    def wait(self, seconds: int) -> int:
        self.now_ns += seconds * NS
        return self.now_ns

    def hear(self, report: Report) -> list[AnyEvent]:
        events = events_of(self.queue, report, self.now_ns)
        self.apply(events)
        self.said.append(report)
        return events

    @initialize()
    def first_hosts(self) -> None:
        for name in ("h1", "h2"):
            self.join(name, again=False, lost=[])

    @rule(
        user=st.sampled_from(USERS),
        devices=st.integers(1, 3),
        kind=st.sampled_from([None, "gpu", "H100", "a100"]),
        share=st.booleans(),
        host=st.sampled_from([None, None, None, "h2"]),
        after=st.lists(
            st.tuples(st.sampled_from(["1", "2", "3_0", "n"]), st.sampled_from(["ok", "any"])),
            max_size=1,
        ),
        array=st.sampled_from([None, None, (0, 1), (3, 5)]),
        retries=st.integers(0, 1),
        priority=st.integers(0, 1),
        held=st.sampled_from([False, False, False, True]),
        key=st.sampled_from([None, None, "k"]),
        name=st.sampled_from(["", "n"]),
        limit=st.sampled_from([None, 60.0]),
        resume=st.sampled_from([None, None, Resume()]),
        seconds=st.integers(0, 4000),
        then=st.integers(0, 31),
    )
    def submit(
        self, user: str, after: Any, array: Any, seconds: int, then: int, **more: Any
    ) -> None:
        kind, limit = more.pop("kind"), more.pop("limit")
        spec = CommandSpec(
            command=("run", "{index}"),
            folder="/",
            after=tuple(Dependency(*one) for one in after),
            device_type=kind,
            time_limit_s=limit,
            **more,
        )
        before = {
            job.spec.key: job.array or job.id
            for job in self.model.jobs.values()
            if job.user == user
        }
        try:
            submitted = requests.submit(
                self.queue, [Submission(spec, array=array)], Caller(user), self.wait(seconds)
            )
        except Refusal as refusal:
            self.expect(refusal, "unknown", "never")
            return
        self.apply(submitted.events)
        answer = submitted.answers[0]
        if spec.key and spec.key in before:
            assert answer.id == before[spec.key]
            assert not submitted.events
            return
        assert not set(answer.ids) & set(self.model.jobs)
        assert len(answer.ids) == (1 if array is None else array[1] - array[0] + 1)
        after = tuple(
            Dependency(target, one.when)
            for one in spec.after
            for target in self.units(one.job, user)
        )
        canonical = kind and {"a100": "A100"}.get(kind, kind)
        spec = msgspec.structs.replace(spec, after=after, device_type=canonical)
        for one in answer.ids:
            self.model.add(one, answer.id if array else None, user, spec)
        self.model.settle()
        if then:
            self.start(0, then)

    def units(self, target: str, user: str) -> list[str]:
        """The jobs and arrays that a dependency means."""
        if self.model.members(target):
            return [target]
        named = [
            one for one in self.model.jobs.values() if (one.user, one.spec.name) == (user, target)
        ]
        units = list(dict.fromkeys(one.array or one.id for one in named))
        open_ = [one for one in units if not all(job.ended for job in self.model.members(one))]
        return open_ or units[-1:]

    def expect(self, refusal: Refusal, *kinds: str) -> None:
        assert refusal.kind in kinds, refusal

    def ask(self, call: Callable[[], Sequence[AnyEvent]], *kinds: str) -> bool:
        """Apply what a request means; False where it is refused, as one of these kinds."""
        try:
            self.apply(call())
        except Refusal as refusal:
            self.expect(refusal, *kinds)
            return False
        return True

    @rule(
        what=st.sampled_from(["cancel", "hold", "release", "priority"]),
        number=st.integers(0, 30),
        whole=st.booleans(),
        caller=st.sampled_from([*USERS, "root", "root"]),
    )
    def change(self, what: str, number: int, whole: bool, caller: str) -> None:
        if not self.model.jobs:
            return
        job = list(self.model.jobs.values())[number % len(self.model.jobs)]
        target = (job.array if whole else None) or job.id
        who = ROOT if caller == "root" else Caller(caller)
        now = self.wait(1)
        calls: dict[str, Callable[[], list[AnyEvent]]] = {
            "cancel": lambda: requests.cancel(self.queue, [target], who, now),
            "hold": lambda: requests.hold(self.queue, [target], who, now),
            "release": lambda: requests.release(self.queue, [target], who, now),
            "priority": lambda: requests.set_priority(self.queue, [target], 1, who, now),
        }
        members = self.model.members(target)
        done = self.ask(calls[what], "forbidden", "conflict")
        may = caller in ("root", job.user)
        waits = [one for one in members if one.state in ("queued", "held")]
        sense = any(not one.ended for one in members) if what == "cancel" else bool(waits)
        assert done == (may and sense)
        if not done:
            return
        for one in members if what == "cancel" else waits:
            match what:
                case "cancel":
                    self.model.cancel(one)
                case "hold":
                    one.state = "held"
                case "release":
                    one.state = "queued"
                case _:
                    one.priority = 1
        self.model.settle()

    @rule(number=st.integers(0, 30), caller=st.sampled_from([*USERS, "root", "root"]))
    def preempt(self, number: int, caller: str) -> None:
        """A job that runs and can come back may be asked to leave, by its user or an admin."""
        running = self.model.running()
        if not running:
            return
        job = running[number % len(running)]
        who = ROOT if caller == "root" else Caller(caller)
        now = self.wait(1)
        done = self.ask(
            lambda: requests.preempt(self.queue, [job.id], who, now), "forbidden", "conflict"
        )
        last = job.attempts[-1]
        can = job.spec.resume is not None and last.started and not job.cancelled
        assert done == (caller in ("root", job.user) and can)
        last.asked = last.asked or done

    @rule(seconds=st.integers(0, 100), arrive=st.integers(0, 15))
    def start(self, seconds: int, arrive: int) -> None:
        """Start what starts in strict order; only some orders reach their hosts."""
        begun = decide(self.queue, self.wait(seconds), "strict")
        self.apply(begun)
        assert [(one.job, one.host, one.devices) for one in begun] == self.model.strict(self.now_ns)
        for place, one in enumerate(begun):
            if not arrive >> place & 1:
                self.recorded[f"{one.job}.{one.attempt}"] = one.host

    @rule(seconds=st.integers(0, 100))
    def start_by_backfill(self, seconds: int) -> None:
        """What begins is allowed to, and the first job in the order does if it can."""
        begun = decide(self.queue, self.wait(seconds), "backfill")
        self.apply(begun)
        if ready := self.model.ready():
            uses = {job.user: self.model.use(job.user, self.now_ns) for job in ready}
            first = self.model.head(ready, uses)
            could = self.model.place(first, set(), set()) is not None
            assert could == (first.id in {one.job for one in begun})
        for one in begun:
            job = self.model.jobs[one.job]
            assert self.model.allows(job, one.host, one.devices)
            self.model.begin(job, one.host, one.devices, self.now_ns)
            self.recorded[f"{one.job}.{one.attempt}"] = one.host

    @rule(number=st.integers(0, 30), seconds=st.integers(0, 1000))
    def started(self, number: int, seconds: int) -> None:
        if not self.recorded:
            return
        name, host = list(self.recorded.items())[number % len(self.recorded)]
        self.hear(CommandStarted(host, name, self.wait(seconds)))
        job_id, _, attempt = name.rpartition(".")
        job = self.model.jobs[job_id]
        if job.state == "running" and len(job.attempts) == int(attempt):
            job.attempts[-1].started_ns = job.attempts[-1].started_ns or self.now_ns

    @rule(
        number=st.integers(0, 30),
        seconds=st.integers(0, 5000),
        cause=st.sampled_from(["exit", "exit", "time", "memory", "start", "cancel", "preempt"]),
        code=st.sampled_from([0, 1, 85]),
        forget=st.booleans(),
        then=st.integers(0, 31),
    )
    def ended(
        self, number: int, seconds: int, cause: Any, code: int, forget: bool, then: int
    ) -> None:
        if not self.recorded:
            return
        name, host = list(self.recorded.items())[number % len(self.recorded)]
        exit_code = code if cause == "exit" else None
        ran = cause != "start"
        now = self.wait(seconds)
        self.hear(CommandEnded(host, name, now, cause, exit_code, ran=ran))
        job_id, _, attempt = name.rpartition(".")
        job = self.model.jobs[job_id]
        if job.state == "running" and len(job.attempts) == int(attempt):
            self.model.end(job, now, cause, exit_code, ran)
            self.model.settle()
        assert forgettable(self.queue, name)
        if forget:
            del self.recorded[name]
        if then:
            self.start(0, then)

    @rule(number=st.integers(0, 1000))
    def repeat(self, number: int) -> None:
        """A report of a start or end that comes again, however late, means nothing."""
        again = [one for one in self.said if isinstance(one, CommandStarted | CommandEnded)]
        if again:
            report = again[number % len(again)]
            under_way = [one for one in self.recorded if one == report.attempt]
            if isinstance(report, CommandEnded) or not under_way:
                assert not events_of(self.queue, report, self.wait(1))

    @rule(
        name=st.sampled_from(list(HOSTS)),
        what=st.sampled_from(["join", "join", "lose", "remove", "foreign", "drain"]),
        again=st.booleans(),
        lost=st.lists(st.integers(0, 5)),
        place=st.sampled_from([None, 0, 1]),
    )
    def host(self, name: str, what: str, again: bool, lost: list[int], place: int | None) -> None:
        match what:
            case "join":
                self.join(name, again, lost)
            case "lose" | "remove":
                self.lose(name)
                if what == "remove":
                    self.remove(name)
            case "foreign":
                self.foreign(name, place)
            case _:
                self.drain(name, place, again)

    def join(self, name: str, again: bool, lost: list[int]) -> None:
        """A host connects; it may have started again, and then have lost records."""
        self.boots[name] += again
        here = [one for one, host in self.recorded.items() if host == name]
        for place in lost if again else []:
            if place < len(here):
                self.recorded.pop(here[place], None)
        kept = [one for one in here if one in self.recorded]
        now = self.wait(1)
        self.hear(AgentJoined(machine(name, self.boots[name]), tuple(kept)))
        self.model.join(machine(name, self.boots[name]), set(kept), now)
        self.model.settle()

    def lose(self, name: str) -> None:
        self.hear(AgentLost(name, "no answer"))
        if name in self.model.hosts:
            self.model.hosts[name].connected = False

    def remove(self, name: str) -> None:
        now = self.wait(1)
        host: ModelHost | None = self.model.hosts.get(name)
        done = self.ask(
            lambda: requests.remove_machine(self.queue, name, ROOT, now), "unknown", "conflict"
        )
        assert done == (host is not None and not host.connected)
        if done:
            for job in self.model.running():
                if job.attempts[-1].host == name:
                    self.model.end(job, now, "host", None, True)
            del self.model.hosts[name]
            for job in self.model.jobs.values():
                if job.tied == name:
                    job.tied = None
            self.model.settle()

    def drain(self, name: str, place: int | None, on: bool) -> None:
        device = None if place is None else HOSTS[name][min(place, len(HOSTS[name]) - 1)][0]
        now = self.wait(1)
        if on:
            done = self.ask(
                lambda: requests.drain(self.queue, name, device, "", ROOT, now), "unknown"
            )
        else:
            done = self.ask(
                lambda: requests.undrain(self.queue, name, device, ROOT, now), "unknown"
            )
        assert done == (name in self.model.hosts)
        if done:
            drained = self.model.hosts[name].drained
            if on:
                drained.add(device)
            elif device is None:
                drained.clear()
            else:
                drained.discard(device)

    def foreign(self, name: str, place: int | None) -> None:
        devices = [one[0] for one in HOSTS[name]]
        used = [] if place is None else devices[place : place + 1]
        uses = tuple(DeviceUse(one, 0, ("x",) if one in used else ()) for one in devices)
        self.hear(DevicesSeen(name, uses))
        if name in self.model.hosts:
            self.model.hosts[name].foreign = set(used)

    @rule(
        quota=st.builds(
            Quota,
            st.sampled_from(["user:ana", "group:lab", "each"]),
            st.sampled_from(["any", "gpu"]),
            st.sampled_from([-1, -1, 1, 2, 3, 4]),
        ),
        user=st.builds(
            User,
            st.sampled_from(USERS),
            groups=st.sampled_from([(), ("lab",)]),
            weight=st.sampled_from([0.5, 1.0, 2.0]),
        ),
    )
    def limit(self, quota: Quota, user: User) -> None:
        self.apply(requests.set_user(self.queue, user, ROOT, self.wait(1)))
        self.model.users[user.name] = user
        self.apply(requests.set_quota(self.queue, quota, ROOT, self.now_ns))
        self.model.quotas.pop((quota.subject, quota.type), None)
        if quota.devices >= 0:
            self.model.quotas[quota.subject, quota.type] = quota

    @precondition(lambda self: self.events)
    @rule()
    def kill(self) -> None:
        """The service is killed: its events come back from disk, and make the same queue."""
        coded = msgspec.json.encode(self.events)
        queue = Queue()
        for event in msgspec.json.decode(coded, type=list[AnyEvent]):
            queue.apply(event)
        assert picture(queue) == picture(self.queue)
        self.queue = queue

    @invariant()
    def same_as_the_model(self) -> None:
        queue, model = self.queue, self.model
        assert {job.id: str(job.state) for job in queue.jobs.values()} == {
            job.id: job.state for job in model.jobs.values()
        }
        for job in model.jobs.values():
            assert len(queue.jobs[job.id].attempts) == len(job.attempts)
            assert queue.jobs[job.id].priority == job.priority
        ready = sorted(place for orders in queue.waiting.groups.values() for place in orders)
        assert [queue.in_order[place].id for place in ready] == [job.id for job in model.ready()]
        assert list(queue.machines) == list(model.hosts)
        for user in USERS:
            assert queue.holds.get(user, {}).get("any", 0) == model.held([user], "any")

    @invariant()
    def devices_are_held_as_allowed(self) -> None:
        for name, host in self.queue.machines.items():
            for device in host.devices:
                holders = [job.id for job in self.model.holders(device)]
                assert sorted(host.holders.get(device, {})) == sorted(holders)
                assert len(holders) <= 1 or (
                    len(holders) <= 4 and all(self.queue.jobs[one].spec.share for one in holders)
                )
            model = self.model.hosts[name]
            for kind in host.counts:
                found = [one.id for one in host.free(kind, share=True)]
                assert found == self.model.free(model, kind, True)

    @invariant()
    def reasons_fit(self) -> None:
        for job in self.queue.jobs.values():
            reason = why(self.queue, job, self.now_ns)
            model = self.model.jobs[job.id]
            assert (reason.code == "held") == (model.state == "held")
            assert (reason.code == "dependency") == (
                model.state == "queued" and self.model.depends(model)
            )
            asked = model.state == "running" and model.attempts[-1].asked
            if asked or (model.state == "running" and job.cancelled_by is not None):
                assert (reason.code, bool(reason.text)) == ("", True)
                continue
            if model.state == "running":
                assert reason.code == ("" if model.attempts[-1].started else "starting")
            assert bool(reason.code) == bool(reason.text)
            if job.state is JobState.QUEUED:
                assert reason.code


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=40)
