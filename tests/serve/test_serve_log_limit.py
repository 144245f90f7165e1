"""The limit of a log: its middle goes, its ends stay, and no write waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from agent_world import PYTHON, World, world
from api_world import submitted
from api_world import world as api_world
from fake_service import play

from warren.serve.agent import log_limit
from warren.serve.agent.log_limit import BLOCK, LogLimit
from warren.serve.api.routes.logs import CHUNK_BYTES

LIMIT = 4 * BLOCK
Test = Callable[[World], Awaitable[None]]


def line(number: int) -> bytes:
    return f"line {number:>10}\n".encode()


def write(path: Path, numbers: range) -> None:
    """Append lines, as a command does."""
    with path.open("ab") as file:
        file.write(b"".join(map(line, numbers)))


def limited(path: Path, said: list[str]) -> LogLimit:
    """A log of a megabyte that was looked at once; skips where its disk makes no holes."""
    limit = LogLimit(str(path), LIMIT, said.append)
    limit.look(0.0)
    if said and "grows on" in said[0]:
        pytest.skip(f"this file system makes no holes: {said[0]}")
    return limit


def test_the_middle_of_a_long_log_is_freed_and_its_ends_stay(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "output"
    write(path, range(70_000))
    size = path.stat().st_size
    limit = limited(path, said)
    whole = path.read_bytes()
    assert len(whole) == size  # readers keep their places
    assert path.stat().st_blocks * 512 <= LIMIT + 2 * BLOCK
    assert whole.startswith(b"".join(map(line, range(100))))
    assert whole.endswith(b"".join(map(line, range(69_900, 70_000))))
    assert b"its middle is left out" in whole

    write(path, range(70_000, 140_000))
    limit.finish()
    whole = path.read_bytes()
    assert path.stat().st_blocks * 512 <= LIMIT + 2 * BLOCK
    assert whole.count(b"its middle is left out") == 1
    assert whole.endswith(line(139_999))
    assert "were left out" in said[-1]


def test_a_log_below_its_limit_and_one_without_a_limit_stay_whole(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "output"
    write(path, range(1_000))
    limit = LogLimit(str(path), LIMIT, said.append)
    limit.look(5.0)
    assert 5.0 < limit.due_s < 16.0
    free = LogLimit(str(path), None, said.append)
    assert free.due_s == float("inf")
    for one in (limit, free):
        one.finish()
    assert said == []
    assert path.read_bytes() == b"".join(map(line, range(1_000)))


def test_where_no_hole_can_be_made_the_log_grows_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(log_limit, "_free", refuse)
    said: list[str] = []
    path = tmp_path / "output"
    write(path, range(70_000))
    limit = LogLimit(str(path), LIMIT, said.append)
    limit.look(0.0)
    assert limit.due_s == float("inf")
    limit.finish()
    assert len(said) == 1
    assert "grows on" in said[0]
    assert path.read_bytes() == b"".join(map(line, range(70_000)))


@pytest.mark.live
def test_a_job_that_writes_more_than_its_limit_goes_on_to_its_end(
    tmp_path: Path, run: Callable[[Test], None]
) -> None:
    script = "import sys\nfor k in range(70_000): print(f'line {k:>10}')\nsys.exit(3)\n"

    async def test(w: World) -> None:
        end = await w.run("1.1", PYTHON, "-c", script, log_limit_bytes=LIMIT)
        assert end.exit_code == 3
        path = w.attempt_folder("1.1") / "output"
        whole = path.read_bytes()
        assert b"line          0\n" in whole
        assert b"line      69999\n" in whole
        if b"grows on" not in whole:
            assert path.stat().st_blocks * 512 <= LIMIT + 2 * BLOCK
            assert whole.rstrip().endswith(b"were left out")

    run(test)


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Test], None]:
    """Run a test with an agent."""

    def call(test: Test) -> None:
        async def main() -> None:
            async with world(tmp_path) as made:
                await test(made)

        asyncio.run(main())

    return call


def test_a_reader_passes_over_the_hole_of_a_log(tmp_path: Path) -> None:
    note, first, last = b"\nwarren: left out\n", b"a" * (2 * CHUNK_BYTES), b"z" * 1_000 + b"\n"
    path = tmp_path / "output"
    path.write_bytes(first + note)
    os.truncate(path, 1_000 * CHUNK_BYTES)
    with path.open("ab") as file:
        file.write(last)
    reads = 0

    async def read_log(host: str, attempt: str, offset: int, limit: int) -> bytes:
        nonlocal reads
        reads += 1
        with path.open("rb") as file:
            return os.pread(file.fileno(), limit, offset)

    async def main() -> None:
        async with api_world() as w:
            w.hosts.read_log = read_log  # type: ignore[method-assign]
            ana = w.local("ana")
            job = await submitted(ana)
            await asyncio.sleep(1)
            answer = await ana.get(f"/v1/jobs/{job}/log")
            assert answer.content == first + note + last
            assert reads < 100
            tail = await ana.get(f"/v1/jobs/{job}/log", params={"tail": 10})
            assert tail.content == last[-10:]

    play(main())


def test_zeros_that_a_command_wrote_at_the_end_are_sent(tmp_path: Path) -> None:
    whole = b"text" + bytes(10_000)

    async def read_log(host: str, attempt: str, offset: int, limit: int) -> bytes:
        return whole[offset : offset + limit]

    async def main() -> None:
        async with api_world() as w:
            w.hosts.read_log = read_log  # type: ignore[method-assign]
            ana = w.local("ana")
            job = await submitted(ana)
            await asyncio.sleep(1)
            assert (await ana.get(f"/v1/jobs/{job}/log")).content == whole

    play(main())
