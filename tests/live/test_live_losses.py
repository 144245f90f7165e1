"""Whatever process is killed, every job ends with the bits of the plain loop, each task once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from live_worlds import (
    accepted,
    drive,
    ended,
    job,
    of,
    session,
    shuffled,
    treat_devices_as_gpus,
    world,
)
from processes import wait_until

from warren.live.control.local_engine import LivePort
from warren.live.oracle.plain import train
from warren.live.process.linux import SHORT_OF_MEMORY as SHORT
from warren.live.process.specs import ExecutorRole, ServerRole, TrainerRole
from warren.live.training import numerics
from warren.live.training.app.app_loader import build_app
from warren.model.cluster import DeviceType
from warren.model.costs import CostTable
from warren.model.decision import Assignment
from warren.model.events import (
    AnyEvent,
    JobFailed,
    ParamsSaved,
    RolledBack,
    RoundsDone,
    TasksLost,
)
from warren.model.job import Checkpoint, Evaluate, Job

pytestmark = pytest.mark.live

EVERY = 3
LARGE = {"width": 4000}
"""So large that states and updates are not sent, but read where they lie."""
JOBS = (
    job(0, rounds=12, checkpoint=Checkpoint(every=EVERY), params={"sleep_s": 0.01}),
    job(
        1,
        rounds=10,
        scale=3,
        checkpoint=Checkpoint(every=EVERY),
        evaluate=Evaluate(every=4),
        params=LARGE,
    ),
    job(2, rounds=6, scale=1, user="bob"),
)
Killer = Callable[[LivePort], None]


def pids(port: LivePort, kind: type) -> list[int]:
    """Living processes of one role."""
    return [pid for pid, role in port.processes().items() if isinstance(role, kind)]


def kill(kind: type, count: int = 1) -> Killer:
    """Kills the first processes of a role."""

    def now(port: LivePort) -> None:
        left = count
        for pid in pids(port, kind):
            with suppress(ProcessLookupError):  # it has just ended by itself; another is killed
                if left:
                    os.kill(pid, signal.SIGKILL)
                    left -= 1

    return now


def kill_zygote(port: LivePort) -> None:
    """Kills the parent of them all."""
    os.kill(port.session, signal.SIGKILL)


def after(moments: dict[int, Killer], port: LivePort) -> Callable[[AnyEvent], None]:
    """Acts when so many barriers have passed."""
    left, passed = dict(moments), [0]

    def watch(event: AnyEvent) -> None:
        passed[0] += isinstance(event, RoundsDone)
        if isinstance(event, RoundsDone) and passed[0] in left:
            left.pop(passed[0])(port)

    return watch


AT_WORK = {0: TrainerRole, 2: ExecutorRole}
"""By calls of the last job's loss: whose process is killed while that task is at work."""


def meeting(folder: Path) -> list[Job]:
    """``JOBS``, the last of which waits in some tasks for ``meet``."""
    params = {"calls": str(folder / "calls"), "meets_at": list(AT_WORK)}
    (folder / "calls").mkdir()
    return [*JOBS[:-1], replace(JOBS[-1], app="apps.py:Meets", params=params)]


@contextmanager
def meet(port: LivePort, folder: Path) -> Iterator[None]:
    """Meanwhile, kills the trainer of a task that waits, or the executor of its device."""
    if not (folder / "calls").exists():
        yield
        return

    def kill_at_work() -> None:
        for call, kind in AT_WORK.items():
            here = folder / "calls" / f"{call}.here"
            assert wait_until(lambda here=here: here.exists() or over.is_set())  # type: ignore[misc]
            if not here.exists():
                return
            trainer, device = here.read_text().split()
            name = f"warren-exec-{device}\n"
            pids = [pid for pid in session(port.session) if comm(pid) == name]
            with suppress(ProcessLookupError):
                os.kill(pids[0] if kind is ExecutorRole and pids else int(trainer), signal.SIGKILL)
            here.with_suffix(".go").touch()

    (folder / "calls" / "begun").touch()
    over = threading.Event()
    killer = threading.Thread(target=kill_at_work)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def comm(pid: int) -> str:
    """The name of a process; none if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


@pytest.fixture(scope="module")
def plain_hashes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What the parameters of each of ``JOBS`` must be, whatever was killed."""
    run, _ = world(tmp_path_factory.mktemp("plain"), JOBS, 2)
    hashes = {}
    for one in run.workload.jobs:
        app = build_app(one, run.base)
        numerics.pin()  # the app's module sets what it likes
        hashes[one.index] = train(app, one).digest
    return hashes


CASES = {
    "devices": {
        2: kill(ExecutorRole), 8: kill(ExecutorRole), 14: kill(ExecutorRole, 2),
        6: kill(TrainerRole, 99), 12: kill(TrainerRole, 99), 18: kill(TrainerRole, 99),
    },
    "servers and zygote": {
        4: kill(ServerRole), 10: kill_zygote, 16: kill(ServerRole, 2), 22: kill(ServerRole),
    },
}  # fmt: skip


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("case", list(CASES))
def test_killed_processes_change_no_bit(
    tmp_path: Path, case: str, servers: int, plain_hashes: dict[int, str]
) -> None:
    jobs = meeting(tmp_path) if case == "devices" else JOBS
    run, costs = world(tmp_path, jobs, 2, servers=servers)
    with LivePort(run, costs, tmp_path / "out") as port, meet(port, tmp_path):
        events = drive(port, shuffled(run, seed=1), after(CASES[case], port))
        pid = port.session
    assert session(pid) == []
    assert ended(events) == {0: "finished", 1: "finished", 2: "finished"}, of(events, JobFailed)
    assert {event.job: event.sha256 for event in of(events, ParamsSaved)} == plain_hashes
    _check_counts(events, case)
    assert not (tmp_path / "out" / "checkpoints").exists()


def test_killed_processes_change_no_bit_where_all_but_the_kernels_is_as_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plain_hashes: dict[int, str]
) -> None:
    treat_devices_as_gpus(monkeypatch)
    run, costs = world(tmp_path, meeting(tmp_path), 2)
    out = tmp_path / "out"
    with LivePort(replace(run, verify=0.2), costs, out) as port, meet(port, tmp_path):
        assert "stand-in" in port.numerics
        events = drive(port, shuffled(run, seed=1), after(CASES["devices"], port))
    assert ended(events) == {0: "finished", 1: "finished", 2: "finished"}, of(events, JobFailed)
    assert {event.job: event.sha256 for event in of(events, ParamsSaved)} == plain_hashes
    _check_counts(events, "gpus")


@pytest.mark.parametrize(("short_at", "ends"), [([0, 9], "finished"), ([8, 9, 10, 11], "failed")])
def test_a_task_for_which_a_device_has_too_little_memory_runs_again_in_another_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short_at: list[int], ends: str
) -> None:
    treat_devices_as_gpus(monkeypatch)
    calls = tmp_path / "calls"
    calls.mkdir()
    short = {"calls": str(calls), "short_at": short_at}
    jobs = [job(0, "Short", rounds=8, params=short), job(1, rounds=6)]
    run, costs = world(tmp_path, jobs, 1)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events) == {0: ends, 1: "finished"}, of(events, JobFailed)
    saved = {event.job: event.sha256 for event in of(events, ParamsSaved)}
    right = [replace(jobs[0], app="apps.py:Tiny", params={}), jobs[1]]
    expected = {}
    for one in right if ends == "finished" else right[1:]:
        app = build_app(one, run.base)
        numerics.pin()
        expected[one.index] = train(app, one).digest
    assert saved == expected
    if ends == "failed":
        (failed,) = of(events, JobFailed)
        assert "the process of its GPU ended again and again, last: its device" in failed.reason
    else:
        assert [event.reason for event in of(events, TasksLost)] == [f"its trainer ended: {SHORT}"]


def test_jobs_kept_to_a_type_have_its_class_beside_devices_of_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs = [job(0, types=("cpu",)), job(1, types=("cuda",)), job(2, numerics="mixed")]
    run, costs = world(tmp_path, jobs, 2)
    first, second = run.cluster.devices
    cluster = replace(
        run.cluster,
        devices=(first, replace(second, type="cuda")),
        types=(*run.cluster.types, DeviceType(name="cuda")),
    )
    treat_devices_as_gpus(monkeypatch, "cuda")
    wanted = {0: 0, 1: 1}
    where = [
        Assignment(wanted.get(one.job, one.device), one.job, one.round, one.rounds, one.shards)
        for one in shuffled(run, seed=1)
    ]
    costs = CostTable(
        **{name: np.tile(getattr(costs, name), 2) for name in ("comp_ns_JT", "sync_ns_JT")},
        fits_JT=np.ones((3, 2), bool),
    )
    with LivePort(replace(run, cluster=cluster), costs, tmp_path / "out") as port:
        events = drive(port, where)
        own = port.numerics.partition("; processors")[0]
    saved = {event.job: event for event in of(events, ParamsSaved)}
    assert [saved[at].numerics for at in range(3)] == [
        own, f"{own}; stand-in, ", f"{own}; processors | stand-in, "
    ]  # fmt: skip
    for one in jobs:
        app = build_app(one, run.base)
        numerics.pin()
        assert saved[one.index].sha256 == train(app, one).digest


def _check_counts(events: list[AnyEvent], case: str) -> None:
    tasks = Counter((row.job, row.round, shard) for row in accepted(events) for shard in row.shards)
    assert set(tasks.values()) == {1}
    assert len(tasks) == sum((one.rounds or 0) * one.scale for one in JOBS)
    why = [event.reason for event in of(events, RolledBack)]
    lost = [event.reason for event in of(events, TasksLost)]
    if case == "devices":
        assert why == []
        assert any("trainer ended" in one for one in lost)
        assert any("executor of its device ended" in one for one in lost)
    elif case == "gpus":
        # The process of a device keeps its job's state, and a thread of it writes checkpoints.
        assert any("executor of its device ended" in one for one in why)
    else:
        assert any("its server ended" in one for one in why)
        assert any("the zygote ended" in one for one in why)
    passed = {one.index: 0 for one in JOBS}
    for event in events:
        if isinstance(event, RoundsDone):
            passed[event.job] = event.round + 1
        elif isinstance(event, RolledBack):
            assert event.round <= passed[event.job]
            if JOBS[event.job].checkpoint:
                assert passed[event.job] - event.round <= EVERY * (2 if case == "gpus" else 1)
            passed[event.job] = event.round


def test_a_job_that_kills_or_hangs_its_process_fails_alone(tmp_path: Path) -> None:
    limit = {"task_limit_ns": 3 * 10**9}
    jobs = [
        job(0, rounds=20, params={"sleep_s": 0.05}),
        job(1, "Dies"),
        job(2, "DiesInServer", evaluate=Evaluate(every=1)),
        job(3, "Hangs", **limit),
        job(4, "HangsInServer", evaluate=Evaluate(every=1), **limit),
    ]
    run, costs = world(tmp_path, jobs, 2)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        pid = port.session
    assert session(pid) == []
    assert ended(events) == {0: "finished"} | dict.fromkeys(range(1, 5), "failed")
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    assert "again and again" in reasons[1]
    assert "killed by SIGKILL" in reasons[1]
    assert "its server ended again and again, last: exit status 7" in reasons[2]
    assert "did not end within its limit of 3 s" in reasons[3]
    assert "the barrier of round 0 did not end within its limit of 3 s" in reasons[4]
    assert "in loss" in (tmp_path / "out/logs/job-3.log").read_text()
    assert "in evaluate" in (tmp_path / "out/logs/job-4.log").read_text()


def test_code_that_blocks_every_signal_and_hangs_fails_its_job_wherever_it_is(
    tmp_path: Path,
) -> None:
    places = ["build in train", "build in serve", "loss", "evaluate"]
    limit = {"task_limit_ns": 2 * 10**9, "evaluate": Evaluate(every=1)}
    jobs = [
        job(index, "Deaf", scale=1, rounds=1, user=place, params={"where": place}, **limit)
        for index, place in enumerate(places)
    ]
    run, costs = world(tmp_path, [*jobs, job(4)], 1)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
        pid = port.session
    assert session(pid) == []
    assert ended(events) == dict.fromkeys(range(4), "failed") | {4: "finished"}
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    late = "did not end within its limit of 2 s (task_limit)"
    begins = ["building its app", "the barrier of round 0", "task 0 of round 0"]
    assert reasons == {
        index: f"{begins[at]} {late}; the place is unknown: it did not react to SIGALRM"
        for index, at in enumerate((0, 1, 2, 1))
    }


@pytest.mark.parametrize("kind", [TrainerRole, ServerRole])
def test_an_app_that_is_not_deterministic_is_named_with_its_tensor(
    tmp_path: Path, kind: type
) -> None:
    one: Job = job(0, "Random", rounds=60, scale=1, params={"sleep_s": 0.02})
    run, costs = world(tmp_path, [one], 1)
    run = replace(run, verify=0.0)
    with LivePort(run, costs, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1), after({8: kill(kind)}, port))
    if kind is ServerRole:
        assert "app is not deterministic" in of(events, JobFailed)[0].reason
        assert "tensor '0." in of(events, JobFailed)[0].reason
    else:  # the task that was lost had not pushed yet: there is nothing to compare it with
        assert ended(events) == {0: "finished"}
