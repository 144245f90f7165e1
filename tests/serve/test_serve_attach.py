"""A shell beside a job has what the job has, and dies with it."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
from pathlib import Path

import processes
import pytest
from agent_world import HOST, PYTHON, World, living, pids_of, world

from warren.serve.agent.attach import CannotAttach, attach

pytestmark = pytest.mark.live

PROGRAM = (
    "import sys; from pathlib import Path; from warren.serve.agent.attach import *\n"
    "try:\n    sys.exit(attach(Path(sys.argv[1]), sys.argv[2:]))\n"
    "except CannotAttach as error:\n    sys.exit(str(error))"
)


def command(here: World, *words: str) -> list[str]:
    return [PYTHON, "-c", PROGRAM, str(here.attempt_folder("1.1")), *words]


async def attached(here: World, typed: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What a shell says that reads what was typed, without a terminal."""
    return await asyncio.to_thread(
        subprocess.run,
        command(here, *words),
        input=typed,
        capture_output=True,
        text=True,
        timeout=processes.PATIENCE_S,
    )


def test_a_shell_has_folder_environment_and_devices_of_the_job(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as here:
            device = (await here.joined(1)).machine.devices[-1].id
            here.start("1.1", "sleep", "1000", folder=str(tmp_path), devices=(device,))
            await here.started("1.1")
            typed = "pwd; echo $WARREN_ATTEMPT_ID $OMP_NUM_THREADS; taskset -cp $$; exit 3\n"
            done = await attached(here, typed)
            assert done.returncode == 3
            said = done.stdout.splitlines()
            assert said[:2] == [str(tmp_path), "1.1 1"]
            assert said[2].endswith(f"list: {device.removeprefix('cpu:')}")
            assert (await attached(here, "", "sh", "-c", "kill -9 $$")).returncode == 128 + 9
            wrong = await attached(here, "", "no-such-program")
            assert wrong.returncode == 1
            assert "'no-such-program' was not found" in wrong.stderr
            here.hosts.stop(HOST, "1.1", 0.0)
            await here.ended("1.1")

    asyncio.run(test())


def test_a_shell_on_a_terminal_controls_it_and_dies_with_the_job(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def test() -> None:
        async with world(tmp_path) as here:
            here.start("1.1", "sleep", "1000")
            await here.started("1.1")
            master, slave = pty.openpty()
            shell = subprocess.Popen(
                command(here, "sh", "-i"), stdin=slave, stdout=slave, stderr=slave
            )
            os.close(slave)
            try:
                await use_and_end(here, master)
                assert await asyncio.to_thread(shell.wait, processes.PATIENCE_S) == 1
            finally:
                shell.kill()
                shell.wait()
                os.close(master)

    async def use_and_end(here: World, master: int) -> None:
        trap = "trap '' HUP TERM; tty; echo $$ > "
        os.write(master, f"{trap}{pids}\n".encode())
        await here.until(lambda: bool(pids_of(pids)))
        assert living(pids_of(pids))
        here.hosts.stop(HOST, "1.1", 0.1)
        await here.ended("1.1")
        assert not living(pids_of(pids))
        said = b""
        while b"the job has ended, and the shell with it" not in said:
            said += await asyncio.to_thread(os.read, master, 1 << 16)
        assert b"/dev/pts/" in said

    asyncio.run(test())


def test_a_job_that_does_not_run_here_cannot_be_attached_to(tmp_path: Path) -> None:
    with pytest.raises(CannotAttach, match="does not run on this machine"):
        attach(tmp_path / "7.1")

    async def test() -> None:
        async with world(tmp_path) as here:
            await here.run("1.1", "true")
            with pytest.raises(CannotAttach, match="does not run on this machine"):
                attach(here.attempt_folder("1.1"))

    asyncio.run(test())
