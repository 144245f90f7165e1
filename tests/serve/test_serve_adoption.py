"""Agents and daemons may be killed at any time: attempts run on, and each is found again."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from agent_world import HOST, PYTHON, World, living, pids_of, world
from test_serve_agent import NASTY, ended_by

from warren.serve.agent import processes
from warren.serve.agent.folders import AgentHome, AttemptFolder, RunnerProcess

pytestmark = pytest.mark.live


def runner_of(here: World, attempt: str) -> int:
    known = AttemptFolder(str(here.attempt_folder(attempt))).record().runner
    assert known is not None
    return known.pid


def test_a_killed_agent_is_started_again_and_finds_its_attempts(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as here:
            here.start("1.1", "sh", "-c", "while [ ! -e $MARK ]; do sleep 0.01; done; exit 9")
            await here.started("1.1")
            here.start("2.1", "sh", "-c", "sleep 0.05; exit 4")
            await here.started("2.1")
            os.kill(here.agent, signal.SIGKILL)
            joined = await here.joined(2)
            assert set(joined.attempts) == {"1.1", "2.1"}
            assert ended_by(await here.ended("2.1")) == ("exit", 4, None, True)
            assert not here.ends("1.1")
            (tmp_path / "mark").touch()
            assert ended_by(await here.ended("1.1")) == ("exit", 9, None, True)

    asyncio.run(test())


def test_attempts_run_on_without_a_daemon_and_the_next_one_learns_how_they_ended(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with world(tmp_path) as here:
            here.start("1.1", "sh", "-c", "while [ ! -e $MARK ]; do sleep 0.01; done; exit 9")
            await here.started("1.1")
        (tmp_path / "mark").touch()
        folder = AttemptFolder(str(here.attempt_folder("1.1")))
        while folder.record().end is None:
            await asyncio.sleep(0.01)
        async with world(tmp_path) as here:
            assert (await here.joined(1)).attempts == ("1.1",)
            assert ended_by(await here.ended("1.1")) == ("exit", 9, None, True)
            here.hosts.forget(HOST, "1.1")
            await here.run("2.1", "true")
            assert (await here.joined(1)).attempts == ("1.1",)
        async with world(tmp_path) as here:
            assert (await here.joined(1)).attempts == ("2.1",)

    asyncio.run(test())


def test_an_adopted_attempt_is_ended_by_the_next_agent(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path) as here:
            here.start("1.1", "sleep", "1000")
            await here.started("1.1")
            os.kill(here.agent, signal.SIGKILL)
            await here.joined(2)
            here.hosts.stop(HOST, "1.1", 60.0)
            assert ended_by(await here.ended("1.1")) == ("cancel", None, signal.SIGTERM, True)

    asyncio.run(test())


def test_a_runner_that_is_killed_with_its_agent_leaves_nothing(tmp_path: Path) -> None:
    pids, port = tmp_path / "pids", tmp_path / "port"

    async def test() -> None:
        async with world(tmp_path) as here:
            here.start("1.1", PYTHON, NASTY, str(pids), str(port))
            while not port.exists():
                await asyncio.sleep(0.01)
            runner = runner_of(here, "1.1")
            os.kill(here.agent, signal.SIGSTOP)  # it must not see what happens
            agent = here.agent
            os.kill(runner, signal.SIGKILL)
            os.kill(agent, signal.SIGKILL)
            await here.joined(2)
            assert ended_by(await here.ended("1.1")) == ("host", None, None, True)
            assert not living(pids_of(pids))

    asyncio.run(test())


def test_attempts_of_before_a_reboot_have_ended_with_their_machine(tmp_path: Path) -> None:
    home = AgentHome(tmp_path / "agent")
    for name, boot in (("1.1", "another boot"), ("2.1", None)):
        folder = home.make(name, None)
        assert folder is not None
        if boot:
            # The number of the process is another's now: this one's.
            ticks = processes.start_ticks(os.getpid())
            assert ticks is not None
            runner = RunnerProcess(os.getpid(), ticks, boot)
            folder.add(runner)
    os.close(home._lock)

    async def test() -> None:
        async with world(tmp_path) as here:
            assert ended_by(await here.ended("1.1")) == ("host", None, None, True)
            assert here.ends("1.1")[0].reason == "its machine was started again"
            assert ended_by(await here.ended("2.1")) == ("start", None, None, False)

    asyncio.run(test())


def test_agents_killed_at_random_moments_lose_no_attempt_and_start_none_twice(
    tmp_path: Path,
) -> None:
    jobs = 16

    async def test() -> None:
        async with world(tmp_path) as here:
            draw = random.Random(5)

            async def order_all() -> None:
                """Orders are given again until the attempt is known, as the daemon does."""
                for number in range(1, jobs + 1):
                    name = f"{number}.1"
                    script = f"echo {number} >> $MARK; sleep 0.0{draw.randint(1, 9)}; exit {number}"
                    while not any(getattr(one, "attempt", "") == name for one in here.reports):
                        here.start(name, "sh", "-c", script)
                        await asyncio.sleep(0.02)

            async def kill_all() -> None:
                for _ in range(4):
                    await asyncio.sleep(draw.uniform(0.0, 0.25))
                    joins = sum(type(one).__name__ == "AgentJoined" for one in here.reports)
                    os.kill(here.agent, signal.SIGKILL)
                    await here.joined(joins + 1)

            await asyncio.gather(order_all(), kill_all())
            for number in range(1, jobs + 1):
                end = await here.ended(f"{number}.1")
                if end.ran:
                    assert ended_by(end) == ("exit", number, None, True)
            ran = [number for number in range(1, jobs + 1) if here.ends(f"{number}.1")[0].ran]
            assert sorted(pids_of(tmp_path / "mark")) == ran

    asyncio.run(test())
