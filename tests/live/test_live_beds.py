"""A run in the hosts of a testbed: who is where, the bits of plain, and nothing left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import warm_program
from bed_worlds import NAME, host_of, on_hosts, standing_bed
from live_worlds import drive, hashes, job, of, plain_hashes, session, shuffled, world
from processes import PATIENCE_S, wait_until

from warren.live.control.local_engine import LivePort
from warren.live.process.host_placement import HostPlacement
from warren.live.process.specs import ExecutorRole, Role, ServerRole, TrainerRole
from warren.live.testbed.cpu_quota import cgroup_roots
from warren.live.testbed.names import namespace
from warren.live.testbed.namespaces import HERE
from warren.live.testbed.orphans import processes
from warren.model.cluster import Local
from warren.model.decision import Assignment
from warren.model.errors import SpecError
from warren.model.events import AnyEvent, RolledBack, RoundsDone
from warren.model.testbed import Bed

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

VICTIM = Path(__file__).parent / "bed_victim.py"
WIDTH = 250_000
BIG = 2
JOBS = (
    job(0, params={"width": 6000}),  # large enough that hosts share it in memory
    job(1, rounds=4, user="bob"),
    job(BIG, scale=1, rounds=2, params={"width": WIDTH}),  # 10 MB, 40 bytes a unit
)
FAR_BYTES = 20 * WIDTH
"""What the first of two servers of the big job owns: weight and bias of the wide layer."""
MBIT = 200


@pytest.fixture(scope="module")
def bed(can_make_testbeds: None) -> Iterator[Bed]:
    limited = 1.5 if cgroup_roots() else None
    with standing_bed(2, MBIT, limited) as made:
        yield made


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    return plain_hashes(tmp_path_factory.mktemp("plain"), JOBS)


def test_a_role_is_at_home_on_the_host_of_its_device_or_where_it_says() -> None:
    trainer = TrainerRole(2, "", "", job(0), "", 0, "")
    every = HostPlacement((HERE, HERE, HERE), (0, 0, 1))
    assert every.of(trainer) == 1
    assert HostPlacement((HERE,)).of(trainer) == 0
    server = ServerRole("", "", job(0), "", "", "", "", part=1, homes=(0, 2), generation=0, round=0)
    assert every.of(server) == 2


@dataclass
class Told:
    """What a run was seen to do; ``at``: by role, the hosts that its processes were on."""

    events: list[AnyEvent] = field(default_factory=list)
    at: dict[str, set[int | None]] = field(default_factory=dict)
    cgroups: dict[int | None, set[str]] = field(default_factory=dict)
    struck: list[int] = field(default_factory=list)
    session: int = 0


@pytest.fixture(scope="module")
def told(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """A run on both hosts, with a memory limit, whose second zygote is killed on its way."""
    folder = tmp_path_factory.mktemp("beds")
    run, costs = world(folder, JOBS, 3, servers=2)
    # Of equal jobs servers begin at the host with the most memory.
    memory = {"h0": 10**9, "h1": 2 * 10**9}
    run = on_hosts(run, ["h0", "h1", "h1"], memory_bytes=10**9, host_bytes=memory)
    told = Told()

    def look(event: AnyEvent) -> None:
        for pid, role in port.processes().items():
            with contextlib.suppress(OSError):  # it has ended, and was not heard to
                cgroups, host = quotas_of(pid), host_of(pid)
                told.at.setdefault(called(role), set()).add(host)
                told.cgroups.setdefault(host, set()).update(cgroups)
        if isinstance(event, RoundsDone) and not told.struck:
            told.struck += zygotes_on(1, session(port.session))
            os.kill(told.struck[0], signal.SIGKILL)

    with LivePort(run, costs, folder / "out") as port:
        told.session = port.session
        tasks = [one if one.job != BIG else on(0, one) for one in shuffled(run, seed=1)]
        told.events += drive(port, tasks, look)
    return told


def on(device: int, one: Assignment) -> Assignment:
    return Assignment(device, one.job, one.round, one.rounds, one.shards)


def called(role: Role) -> str:
    match role:
        case ExecutorRole(device=device) | TrainerRole(device=device):
            return f"device {device}"
        case ServerRole(job=one, part=part):
            return f"server {one.index}.{part}"
        case _:
            raise AssertionError(role)


def quotas_of(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return [Path(one).name for one in lines if f"warren-{NAME}-" in one]


def zygotes_on(host: int, pids: list[int]) -> list[int]:
    """The zygotes of a host, without children that still have the name of theirs."""
    parents: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            if name.endswith("(warren-zygote") and host_of(pid) == host:
                parents[pid] = int(rest.split()[1])
    return [pid for pid, parent in parents.items() if parent not in parents]


def test_processes_are_in_the_networks_of_their_hosts(told: Told) -> None:
    assert host_of(os.getpid()) is None
    assert told.at == {
        "device 0": {0}, "device 1": {1}, "device 2": {1},
        "server 0.0": {1}, "server 0.1": {0}, "server 1.0": {0}, "server 1.1": {1},
        "server 2.0": {1}, "server 2.1": {0},
    }  # fmt: skip


def test_on_two_hosts_one_of_which_loses_its_zygote_the_bits_are_those_of_plain(
    told: Told, plain: dict[int, str]
) -> None:
    assert len(told.struck) == 1
    assert of(told.events, RolledBack)
    assert hashes(told.events) == plain


def test_a_round_lasts_as_long_as_the_link_takes_for_its_bytes(told: Told) -> None:
    """All its tasks are on the first host: state and update pass the second one's link."""
    barriers = {one.round: one.barrier_ns for one in of(told.events, RoundsDone, BIG)}
    assert barriers[1] - barriers[0] >= 1e9 * 2 * FAR_BYTES * 8 / (MBIT * 1e6)


@pytest.mark.skipif(not cgroup_roots(), reason="no cgroup with the cpu controller here")
def test_processes_of_a_host_share_its_quota_beside_a_memory_limit(told: Told) -> None:
    assert told.cgroups == {host: {namespace(NAME, host)} for host in (0, 1)}


def test_after_a_run_nothing_is_left_in_any_host(told: Told) -> None:
    assert not session(told.session)
    assert not processes([namespace(NAME, host) for host in (0, 1)])


def test_killed_together_controller_and_first_zygote_leave_nothing_in_any_host(
    bed: Bed, tmp_path: Path
) -> None:
    victim, said = warm_program.start_and_hear([VICTIM, tmp_path, NAME], os.environ)
    zygote, folder = said.split()
    for pid in (victim.pid, int(zygote)):
        os.kill(pid, signal.SIGKILL)
    victim.wait(PATIENCE_S)
    inside = [namespace(NAME, host) for host in (0, 1)]
    assert wait_until(lambda: not processes(inside)), processes(inside)
    assert wait_until(lambda: not Path(folder).exists())


def test_a_host_that_the_testbed_lacks_is_refused_and_both_are_named(
    bed: Bed, tmp_path: Path
) -> None:
    run, costs = world(tmp_path, JOBS, 2)
    run = on_hosts(run, ["h0", "v-1"])
    with pytest.raises(SpecError, match=f"{NAME} has no host 'v-1', .* it has: h0, h1"):
        LivePort(run, costs, tmp_path / "out").__enter__()


def test_a_testbed_that_is_not_up_is_refused_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    run, costs = world(tmp_path, JOBS, 2)
    run = replace(run, cluster=replace(run.cluster, local=Local(testbed="nowhere")))
    with pytest.raises(SpecError, match="`warren testbed up --name nowhere` makes it"):
        LivePort(run, costs, tmp_path / "out").__enter__()
