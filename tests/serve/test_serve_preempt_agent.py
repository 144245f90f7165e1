"""An agent preempts commands: signals, graces, what they come back with; with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from agent_world import HOST, PYTHON, World, world

from warren.serve.daemon.orders import start_order
from warren.serve.hosts.port import CommandEnded, StartOrder
from warren.serve.records.jobs import Attempt, CommandSpec, Resume, ServiceJob

pytestmark = pytest.mark.live

Test = Callable[[World], Awaitable[None]]
LOOP = "echo on; while :; do sleep 0.01; done"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[Test], None]]:
    """Runs a test with an agent."""

    def started(test: Test) -> None:
        async def within() -> None:
            async with world(tmp_path) as made:
                await test(made)

        asyncio.run(within())

    return started


async def said(here: World, attempt: str, text: str) -> None:
    """Wait until a command has written this."""
    async with asyncio.timeout(60):
        while text not in await here.log(attempt):
            await asyncio.sleep(0.01)


async def preempted(
    here: World, attempt: str, script: str, grace_s: float = 60.0, resume: Resume | None = None
) -> CommandEnded:
    """Start a script, preempt it when it says that it is on, and return its end."""
    here.start(attempt, "sh", "-c", script, resume=resume or Resume())
    await said(here, attempt, "on\n")
    here.hosts.stop(HOST, attempt, grace_s, preempt=True)
    return await here.ended(attempt)


def ended_by(end: CommandEnded) -> tuple[str, int | None, int | None]:
    return end.cause, end.exit_code, end.signal


def test_the_leader_alone_gets_the_signal_of_its_job(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        child = f'(trap "echo child" USR1; {LOOP}) &'
        script = f"trap 'echo leader; exit 85' USR1; {child} wait; {LOOP}"
        end = await preempted(here, "1.1", script, resume=Resume(signal="USR1"))
        assert ended_by(end) == ("preempt", 85, None)
        log = await here.log("1.1")
        assert "leader" in log
        assert "child" not in log

    run(test)


def test_a_stopped_command_goes_on_to_save(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        script = f"trap 'echo saved; exit 0' TERM; echo on; kill -STOP $$; {LOOP}"
        assert ended_by(await preempted(here, "1.1", script)) == ("preempt", 0, None)
        assert "saved" in await here.log("1.1")

    run(test)


def test_a_command_that_does_not_listen_is_killed_after_its_grace(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        end = await preempted(here, "1.1", f"trap '' TERM; {LOOP}", grace_s=0.1)
        assert ended_by(end) == ("preempt", None, signal.SIGKILL)
        assert end.saved is False
        assert end.lost_s is not None
        assert end.lost_s > 0.1

    run(test)


def test_a_shell_that_runs_the_command_does_not_keep_the_signal(
    run: Callable[[Test], None],
) -> None:
    """A shell dies of it at once; the command below it has the signal, and the whole grace."""

    async def test(here: World) -> None:
        inner = f"trap 'sleep 0.1; echo saved; exit' USR1; {LOOP}"
        end = await preempted(here, "1.1", f'sh -c "{inner}"; true', resume=Resume(signal="USR1"))
        assert end.cause == "preempt"
        assert "saved" in await here.log("1.1")

    run(test)


def test_whether_a_command_has_saved_is_measured(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        save = "echo x >$WARREN_CHECKPOINT_DIR/state.pt"
        end = await preempted(here, "1.1", f"trap '{save}; exit 0' TERM; {LOOP}")
        assert (end.saved, end.lost_s) == (True, None)
        assert end.save_s is not None
        end = await preempted(here, "2.1", f"trap 'exit 0' TERM; {save}; sleep 0.2; {LOOP}")
        assert (end.saved, end.save_s) == (False, None)
        assert end.lost_s is not None
        assert end.lost_s > 0

    run(test)


def test_one_signal_is_sent_and_a_cancel_ends_a_preempted_command(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        script = f"trap 'echo got' USR1; {LOOP}"
        here.start("1.1", "sh", "-c", script, resume=Resume(signal="USR1"))
        await said(here, "1.1", "on\n")
        for _ in range(2):
            here.hosts.stop(HOST, "1.1", 60.0, preempt=True)
            await said(here, "1.1", "got")
        await asyncio.sleep(0.1)
        here.hosts.stop(HOST, "1.1", 60.0)
        assert ended_by(await here.ended("1.1")) == ("cancel", None, signal.SIGTERM)
        assert (await here.log("1.1")).count("got") == 1

    run(test)


def test_a_command_comes_back_with_its_newest_checkpoint_and_its_folder(
    run: Callable[[Test], None],
) -> None:
    async def test(here: World) -> None:
        resume = Resume(template="--from {latest}")
        end = await here.run("7.1", "sh", "-c", 'echo "$@"', "x", "begin", resume=resume)
        assert end.cause == "exit"
        folder = here.home / "agent" / "checkpoints" / "7"
        for step in (9, 10):
            (folder / f"step_{step}").mkdir(parents=True)
            (folder / f"step_{step}" / ".metadata").write_text("x")
        await here.run("7.2", "sh", "-c", 'echo "$@"', "x", "begin", resume=resume)
        assert (await here.log("7.1")) == "begin\n"
        newest = folder / "step_10"
        assert (await here.log("7.2")) == (
            f"warren: the command goes on from {newest}\nbegin --from {newest}\n"
        )

    run(test)


def test_caches_and_a_port_are_those_of_the_job(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        own = {"PATH": os.environ["PATH"], "TRITON_CACHE_DIR": "/mine"}
        await here.run("3.1", "env", resume=Resume(), environment=own)
        lines = (await here.log("3.1")).splitlines()
        folder = here.home / "agent" / "checkpoints" / "3"
        assert f"TORCHINDUCTOR_CACHE_DIR={folder}/.cache/inductor" in lines
        assert "TRITON_CACHE_DIR=/mine" in lines
        assert "MASTER_ADDR=127.0.0.1" in lines
        assert any(line.startswith("MASTER_PORT=2") for line in lines)
        assert not any(line.startswith(("RANK=", "WORLD_SIZE=")) for line in lines)

    run(test)


def test_a_folder_on_shared_storage_is_made_for_the_job_and_its_place_must_be_there(
    run: Callable[[Test], None], tmp_path: Path
) -> None:
    shared = tmp_path / "shared"

    async def test(here: World) -> None:
        order = slurm_order("5", 1, "true", Resume(checkpoints=str(shared)))
        here.hosts.start(HOST, order)
        end = await here.ended("5.1")
        assert ended_by(end) == ("start", None, None)
        assert end.reason == f"{shared}/5 cannot be made: No such file or directory"
        shared.mkdir()
        here.hosts.start(HOST, slurm_order("5", 2, "true", Resume(checkpoints=str(shared))))
        assert ended_by(await here.ended("5.2")) == ("exit", 0, None)
        assert (shared / "5").is_dir()

    run(test)


# Slurm.


def slurm_order(job: str, number: int, command: str, resume: Resume) -> StartOrder:
    """The order of an attempt of a job, as the daemon makes it."""
    spec = CommandSpec(
        ("sh", "-c", command),
        "/",
        environment={"PATH": os.environ["PATH"]},
        resume=resume,
        grace_s=0.3,
    )
    array = job.partition("_")[0] if "_" in job else None
    made = ServiceJob(id=job, order=0, user="ana", spec=spec, submitted_ns=0, array=array)
    return start_order(made, Attempt(number, HOST, (), 0), None)


HANDLER = """
import glob, os, signal, subprocess, sys, time

folder = os.environ["WARREN_CHECKPOINT_DIR"]
saved = glob.glob(folder + "/hpc_ckpt_*.ckpt")


def name() -> str:
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is None:
        return os.environ["SLURM_JOB_ID"]
    return array + "_" + os.environ["SLURM_ARRAY_TASK_ID"]


def requeue(number, frame):
    with open(f"{folder}/hpc_ckpt_{len(saved) + 1}.ckpt", "w") as file:
        file.write("state")
    print("requeue ends with", subprocess.call(["scontrol", "requeue", name()]), flush=True)
"""
LIKE_LIGHTNING = f"""{HANDLER}
signal.signal(signal.SIGTERM, lambda *_: print("passed over", flush=True))
signal.signal(signal.SIGUSR1, requeue)
print("found", len(saved), "on", flush=True)
while not saved:  # it trains on until Slurm would end it
    time.sleep(0.01)
"""
LIKE_SUBMITIT = f"""{HANDLER}
def handler(number, frame):
    requeue(number, frame)
    sys.exit(-1)


signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGUSR2, handler)
print("found", len(saved), "on", flush=True)
while not saved:
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("script", "signal_name", "job", "ends"),
    [
        (LIKE_LIGHTNING, "USR1", "12", ("preempt", None, signal.SIGKILL)),
        (LIKE_SUBMITIT, "USR2", "12_3", ("preempt", 255, None)),
    ],
)
def test_code_for_slurm_saves_requeues_itself_and_goes_on(
    run: Callable[[Test], None],
    tmp_path: Path,
    script: str,
    signal_name: str,
    job: str,
    ends: tuple[str, int | None, int | None],
) -> None:
    file = tmp_path / "train.py"
    file.write_text(script)

    async def test(here: World) -> None:
        resume = Resume(compat="slurm", signal=signal_name)  # type: ignore[arg-type]
        command = f"exec {PYTHON} {file}"
        here.hosts.start(HOST, slurm_order(job, 1, command, resume))
        await said(here, f"{job}.1", "found 0 on\n")
        here.hosts.stop(HOST, f"{job}.1", 60.0, preempt=True)
        end = await here.ended(f"{job}.1")
        assert (ended_by(end), end.saved) == (ends, True)
        assert "requeue ends with 0" in await here.log(f"{job}.1")
        here.hosts.start(HOST, slurm_order(job, 2, command, resume))
        assert ended_by(await here.ended(f"{job}.2")) == ("exit", 0, None)
        assert "found 1 on" in await here.log(f"{job}.2")

    run(test)


@pytest.mark.parametrize("then", ["exit 3", "exit 0", "exec sleep 1000"])
def test_a_command_that_calls_scontrol_requeue_is_started_again(
    run: Callable[[Test], None], then: str
) -> None:
    async def test(here: World) -> None:
        resume = Resume(compat="slurm")
        command = f'scontrol requeue "$SLURM_JOB_ID"; {then}'
        here.hosts.start(HOST, slurm_order("4", 1, command, resume))
        assert (await here.ended("4.1")).cause == "requeue"

    run(test)


def test_scontrol_of_a_job_knows_its_own_job_and_host_alone(run: Callable[[Test], None]) -> None:
    async def test(here: World) -> None:
        command = "scontrol requeue 99; scontrol show hostnames; scontrol hold 4"
        here.hosts.start(HOST, slurm_order("4", 1, command, Resume(compat="slurm")))
        assert ended_by(await here.ended("4.1")) == ("exit", 1, None)
        log = await here.log("4.1")
        assert "scontrol: job 99 is not this job, 4" in log
        assert f"\n{HOST}\n" in log
        assert "`requeue` and `show hostnames` alone" in log

    run(test)
