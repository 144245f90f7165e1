"""An agent starts commands, ends them, and says how they ended; with real processes."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from agent_world import HOST, PYTHON, World, living, pids_of, world

from warren.serve.agent import cgroups
from warren.serve.agent.folders import AttemptFolder
from warren.serve.hosts.port import CommandEnded

pytestmark = pytest.mark.live

NASTY = str(Path(__file__).with_name("nasty.py"))
Test = Callable[[World], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Test], None]]:
    """Runs a test with an agent."""

    def started(test: Test) -> None:
        async def within() -> None:
            async with world(tmp_path) as made:
                await test(made)

        asyncio.run(within())

    return started


def ended_by(end: CommandEnded) -> tuple[str, int | None, int | None, bool]:
    return end.cause, end.exit_code, end.signal, end.ran


def test_the_exit_code_and_the_signal_of_a_command_are_reported(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        assert ended_by(await here.run("1.1", "true")) == ("exit", 0, None, True)
        assert ended_by(await here.run("2.1", "sh", "-c", "exit 7")) == ("exit", 7, None, True)
        end = await here.run("3.1", "sh", "-c", "kill -SEGV $$")
        assert ended_by(end) == ("exit", None, signal.SIGSEGV, True)
        assert end.reason == "ended by SIGSEGV"

    run(test)


def test_a_command_has_its_folder_its_environment_its_devices_and_its_log(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    async def test(here: World) -> None:
        folder = tmp_path / "work"
        folder.mkdir()
        joined = await here.joined(1)
        device = joined.machine.devices[-1]
        assert device.kind == "cpu"
        await here.run(
            "7.2",
            "sh",
            "-c",
            "pwd; env; taskset -cp $$; echo wrong >&2",
            folder=str(folder),
            devices=(device.id,),
            environment={"PATH": os.environ["PATH"], "A": "bä", "WARREN_CHECKPOINT_DIR": "/c"},
        )
        said = (await here.log("7.2")).splitlines()
        assert said[0] == str(folder)
        number = device.id.removeprefix("cpu:")
        for line in (
            "A=bä",
            "WARREN_JOB_ID=7",
            "WARREN_ATTEMPT=2",
            "WARREN_ATTEMPT_ID=7.2",
            "WARREN_CHECKPOINT_DIR=/c",
            "CUDA_VISIBLE_DEVICES=",
            "OMP_NUM_THREADS=1",
            "wrong",
        ):
            assert line in said
        assert any(line.endswith(f"list: {number}") for line in said if "affinity" in line)
        assert (await here.hosts.read_log(HOST, "7.2", 1, 3)) == f"{folder}"[1:4].encode()

    run(test)


def test_a_command_that_cannot_start_is_one_line_that_names_what_and_where(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("nothing\n")
    (tmp_path / "program").write_text("nothing\n")
    (tmp_path / "program").chmod(0o755)
    cases = {
        "1.1": (("trian",), {}, "command 'trian' was not found in PATH="),
        "2.1": (("./x",), {}, "command './x' does not exist in folder '/'"),
        "3.1": (("true",), {"folder": "/no/such"}, "folder '/no/such' cannot be entered: No such"),
        "4.1": ((str(tmp_path / "data"),), {}, "cannot be executed: Permission denied"),
        "5.1": ((str(tmp_path / "program"),), {}, "is no program"),
        "6.1": (("true",), {"devices": ("cpu:999",)}, "there is no device cpu:999"),
        "7.1": (("true",), {"account": "no-such-account"}, "'no-such-account' does not exist"),
        "8.1": (("a\0b",), {}, "embedded null"),
    }

    async def test(here: World) -> None:
        for attempt, (command, fields, reason) in cases.items():
            end = await here.run(attempt, *command, **fields)
            assert ended_by(end) == ("start", None, None, False)
            assert reason in end.reason
            assert "\n" not in end.reason

    run(test)


def test_a_time_limit_counts_from_the_start_and_ends_the_command(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        end = await here.run("1.1", "sleep", "1000", time_limit_s=0.2)
        assert ended_by(end) == ("time", None, signal.SIGTERM, True)
        assert end.reason == "it reached its time limit of 0.2 s"

    run(test)


def test_an_attempt_starts_once_however_often_it_is_ordered(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    async def test(here: World) -> None:
        write = ("sh", "-c", 'echo ran >> "$MARK"')
        here.start("1.1", *write)
        here.start("1.1", *write)
        await here.ended("1.1")
        here.start("1.1", *write)
        here.hosts.forget(HOST, "1.1")
        here.hosts.forget(HOST, "1.1")
        here.start("1.1", *write)
        await here.run("2.1", "true")
        assert (tmp_path / "mark").read_text() == "ran\n"
        assert [path.name for path in here.attempt_folder("1.1").iterdir()] == ["output"]
        # A queue from a backup would wait for it for ever.
        last = here.ends("1.1")[-1]
        assert ended_by(last) == ("start", None, None, False)
        assert last.reason == "its host has the log of an earlier attempt of this name"

    run(test)


def test_an_attempt_that_is_stopped_before_it_came_never_starts(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    async def test(here: World) -> None:
        here.hosts.stop(HOST, "1.1", 0.0)
        here.start("1.1", "sh", "-c", 'echo ran >> "$MARK"')
        assert ended_by(await here.ended("1.1")) == ("cancel", None, None, False)
        await here.run("2.1", "true")
        assert not (tmp_path / "mark").exists()

    run(test)


def test_a_cancelled_command_gets_sigterm_and_may_end_by_itself(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        here.start(
            "1.1",
            "sh",
            "-c",
            "trap 'echo saved; exit 5' TERM; echo on; while :; do sleep 0.01; done",
        )
        while "on" not in await here.log("1.1"):
            await asyncio.sleep(0.01)
        here.hosts.stop(HOST, "1.1", 60.0)
        here.hosts.stop(HOST, "1.1", 60.0)
        assert ended_by(await here.ended("1.1")) == ("cancel", 5, None, True)
        assert "saved" in await here.log("1.1")

    run(test)


def test_what_a_leader_leaves_behind_gets_sigterm_and_the_rest_of_the_grace(
    run: Callable[[Test], None],
) -> None:
    """A shell that runs a program dies of the SIGTERM that its program should have, too."""

    async def test(here: World) -> None:
        inner = "trap 'sleep 0.1; echo saved; exit' TERM; echo on; while :; do sleep 0.01; done"
        here.start("1.1", "sh", "-c", f'sh -c "{inner}"; true')
        while "on" not in await here.log("1.1"):
            await asyncio.sleep(0.01)
        here.hosts.stop(HOST, "1.1", 60.0)
        assert (await here.ended("1.1")).cause == "cancel"
        assert "saved" in await here.log("1.1")

    run(test)


@pytest.mark.parametrize("held", ["as the machine allows", "by the runner alone"])
def test_nothing_is_left_of_a_command_that_double_forks_and_ignores_sigterm(
    run: Callable[[Test], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str
) -> None:
    if held == "by the runner alone":
        monkeypatch.setenv("WARREN_CGROUPS", "off")
    pids, port = tmp_path / "pids", tmp_path / "port"

    async def test(here: World) -> None:
        limits = (await here.joined(1)).machine.limits
        if held == "by the runner alone":
            assert limits == "rlimit"
        here.start("1.1", PYTHON, NASTY, str(pids), str(port))
        while not port.exists():
            await asyncio.sleep(0.01)
        here.hosts.stop(HOST, "1.1", 0.1)
        end = await here.ended("1.1")
        assert ended_by(end) == ("cancel", None, signal.SIGKILL, True)
        assert len(pids_of(pids)) == 3
        assert not living(pids_of(pids))

    run(test)


STORM = """
import os
while True:  # each process ends when it has a child, so there is always another one
    if os.fork():
        os._exit(0)
    os.setsid()
"""


@pytest.mark.parametrize("cgroups", ["on", "off"])
def test_a_chain_of_forks_does_not_outrun_its_killer(
    run: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch, cgroups: str
) -> None:
    monkeypatch.setenv("WARREN_CGROUPS", cgroups)

    async def test(here: World) -> None:
        end = await here.run("1.1", PYTHON, "-c", STORM)
        assert ended_by(end) == ("exit", 0, None, True)

    run(test)


def test_a_killed_runner_takes_its_processes_along(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    pids, port = tmp_path / "pids", tmp_path / "port"

    async def test(here: World) -> None:
        here.start("1.1", PYTHON, NASTY, str(pids), str(port))
        while not port.exists():
            await asyncio.sleep(0.01)
        known = AttemptFolder(str(here.attempt_folder("1.1"))).record().runner
        assert known is not None
        os.kill(known.pid, signal.SIGKILL)
        end = await here.ended("1.1")
        assert ended_by(end) == ("host", None, None, True)
        assert end.reason == "its runner was killed"
        assert not living(pids_of(pids))

    run(test)


def other_account() -> str:
    if os.geteuid() != 0:
        pytest.skip("only root can run commands as another account")
    for entry in pwd.getpwall():
        if entry.pw_uid and shutil.which("true"):
            return entry.pw_name
    pytest.skip("this machine has one account alone")


def test_a_command_runs_as_its_account_which_must_be_able_to_enter_the_folder(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    account = other_account()
    entry = pwd.getpwnam(account)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)

    async def test(here: World) -> None:
        script = "id -un; id -u; id -G; echo $HOME $USER; echo again >> /dev/stderr"
        end = await here.run("1.1", "/bin/sh", "-c", script, account=account)
        assert ended_by(end) == ("exit", 0, None, True)
        said = (await here.log("1.1")).splitlines()
        groups = sorted(os.getgrouplist(account, entry.pw_gid))
        assert said[:2] == [account, str(entry.pw_uid)]
        assert sorted(map(int, said[2].split())) == groups
        assert said[3:] == [f"{entry.pw_dir} {account}", "again"]
        end = await here.run("2.1", "/bin/true", account=account, folder=str(closed))
        assert ended_by(end) == ("start", None, None, False)
        assert end.reason == (
            f"folder '{closed}' cannot be entered by account '{account}': Permission denied"
        )

    run(test)


def test_a_cancel_reaches_a_command_although_the_disk_takes_no_file(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        here.start("1.1", "sleep", "1000")
        await here.started("1.1")
        (here.attempt_folder("1.1") / "stop.part").mkdir()  # in the way of the order
        here.hosts.stop(HOST, "1.1", 60.0)
        assert ended_by(await here.ended("1.1")) == ("cancel", None, signal.SIGTERM, True)

    run(test)


def test_a_runner_that_the_machine_asks_to_end_ends_its_attempt_for_the_host(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        here.start("1.1", "sleep", "1000")
        await here.started("1.1")
        known = AttemptFolder(str(here.attempt_folder("1.1"))).record().runner
        assert known is not None
        os.kill(known.pid, signal.SIGTERM)
        assert ended_by(await here.ended("1.1")) == ("host", None, signal.SIGTERM, True)

    run(test)


def test_a_command_cannot_use_more_memory_than_its_limit(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        program = "x = bytearray(1 << 30); print(len(x))"
        limit = 200 << 20
        end = await here.run("1.1", PYTHON, "-c", program, memory_bytes=limit)
        assert end.cause in ("exit", "memory")
        assert end.exit_code != 0
        assert "1073741824" not in await here.log("1.1")
        end = await here.run("2.1", PYTHON, "-c", "print(5)", memory_bytes=limit)
        assert end.exit_code == 0

    run(test)


def test_a_group_is_looked_for_above_the_agents_own(tmp_path: Path) -> None:
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    mounts.write_text("tmpfs /tmp tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    own.write_text("1:cpu:/x\n0::/user.slice/app.slice/warren.service\n")
    assert cgroups.folders(str(mounts), str(own)) == [
        "/sys/fs/cgroup/user.slice/app.slice",
        "/sys/fs/cgroup/user.slice/app.slice/warren.service",
    ]
    own.write_text("0::/\n")
    assert cgroups.folders(str(mounts), str(own)) == ["/sys/fs/cgroup"]
    mounts.write_text("tmpfs /tmp tmpfs rw 0 0\n")
    assert cgroups.folders(str(mounts), str(own)) == []


def test_the_folder_for_checkpoints_stays_for_the_next_attempt_if_something_is_in_it(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    async def test(here: World) -> None:
        await here.run("1.1", "sh", "-c", 'echo step 5 > "$WARREN_CHECKPOINT_DIR/last"')
        await here.run("1.2", "sh", "-c", 'cat "$WARREN_CHECKPOINT_DIR/last"')
        assert await here.log("1.2") == "step 5\n"
        await here.run("2.1", "true")
        assert [path.name for path in (tmp_path / "agent" / "checkpoints").iterdir()] == ["1"]

    run(test)
