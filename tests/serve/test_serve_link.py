"""Agents and the daemon: who is let in, what is malformed, and what is heard of a lost agent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import processes
import pytest
from agent_world import HOST, World, world

from warren.serve.agent.link import CannotConnect, parse_target
from warren.serve.hosts import agents, messages
from warren.serve.hosts.agents import AgentHosts, HostNotConnected
from warren.serve.hosts.messages import Hello, Lines, MalformedMessage
from warren.serve.hosts.port import AgentJoined, AgentLost, CommandEnded, StartOrder
from warren.serve.hosts.tls import credentials
from warren.serve.records.machines import Machine

MACHINE = Machine("far", (), "boot", 1, 1, "", "0")


def test_lines_are_cut_wherever_the_bytes_come_apart() -> None:
    lines = Lines(10)
    assert lines.feed(b"ab") == []
    assert lines.feed(b"c\n\nde") == [b"abc", b""]
    assert lines.feed(b"f\n") == [b"def"]


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 6, b"x" * 6], [b"x" * 11 + b"\n"]])
def test_a_line_that_is_too_long_is_malformed(pieces: list[bytes]) -> None:
    lines = Lines(10)
    for piece in pieces[:-1]:
        lines.feed(piece)
    with pytest.raises(MalformedMessage, match="longer than 10 bytes"):
        lines.feed(pieces[-1])


@pytest.mark.parametrize(
    "line", [b"", b"{", b"\xff", b'{"type":"start"}', b'{"type":"x"}', b"[" * 100_000, b"null"]
)
def test_bytes_that_are_no_message_are_malformed_in_one_line(line: bytes) -> None:
    for decode in (messages.decode_order, messages.decode_report):
        with pytest.raises(MalformedMessage) as error:
            decode(line)
        assert len(str(error.value)) <= 300
        assert "\n" not in str(error.value)


def test_messages_come_back_as_they_were() -> None:
    order = StartOrder("1.1", ("a", "ü"), "/", {"A": "\n"}, ("cpu:0",), grace_s=1.5)
    for one in (messages.StartAttempt(order), messages.StopAttempt("1.1", 0.5), messages.Welcome()):
        assert messages.decode_order(messages.encode(one)) == one
    piece = messages.LogPiece(3, bytes(range(256)))
    for other in (piece, Hello(MACHINE, ("1.1",), "id"), CommandEnded("h", "1.1", 5, "exit", 0)):
        assert messages.decode_report(messages.encode(other)) == other


@pytest.mark.parametrize(
    ("text", "token", "fingerprint", "message"),
    [
        ("host", "t", "0" * 64, "is no address"),
        ("host:0", "t", "0" * 64, "is no address"),
        ("host:99999", "t", "0" * 64, "is no address"),
        ("host:1", "t", "xyz", "64 hexadecimal digits"),
        ("host:1", "", "0" * 64, "a token is missing"),
    ],
)
def test_a_wrong_target_is_one_line(text: str, token: str, fingerprint: str, message: str) -> None:
    with pytest.raises(CannotConnect, match=message):
        parse_target(text, token, fingerprint)


def test_a_certificate_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    made = credentials(tmp_path / "tls")
    assert credentials(tmp_path / "tls") == made
    assert len(made.fingerprint) == 64
    for path in (tmp_path / "tls").iterdir():
        assert path.stat().st_mode & 0o077 == 0


@contextlib.asynccontextmanager
async def far_hosts(home: Path, lost_s: float = 60.0, port: int = 0) -> AsyncIterator[World]:
    """Hosts without an agent of this machine, which await one by TLS."""
    made = World(home)
    made.hosts = AgentHosts(
        home,
        name="daemon",
        listen=("127.0.0.1", port),
        local=False,
        lost_s=lost_s,
        say=made.lines.append,
    )
    await made.hosts.open(made.take)
    try:
        yield made
    finally:
        await made.hosts.close()


def far_agent(
    here: World, token: str = "", fingerprint: str = "", name: str = HOST
) -> subprocess.Popen[str]:
    """An agent as another machine would run it."""
    known = here.hosts.credentials
    assert known is not None
    command = [
        *(sys.executable, "-m", "warren.serve.agent", "--home", str(here.home / "far")),
        *("--connect", f"127.0.0.1:{here.hosts.port}", "--name", name),
        *("--token", token or known.token, "--fingerprint", fingerprint or known.fingerprint),
    ]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


async def over(agent: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of an agent, and return its exit code and what it said."""
    said = await asyncio.to_thread(agent.communicate, timeout=processes.PATIENCE_S)
    return agent.returncode, said[1]


@pytest.mark.live
def test_an_agent_joins_by_tls_runs_jobs_and_comes_back_when_the_daemon_does(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with far_hosts(tmp_path) as here:
            agent = far_agent(here)
            await here.joined(1)
            end = await here.run("1.1", "sh", "-c", "seq 20000; exit 6")
            assert (end.cause, end.exit_code) == ("exit", 6)
            text = "".join(f"{one}\n" for one in range(1, 20001))
            assert await here.log("1.1") == text[: 1 << 16]
            port = here.hosts.port
        async with far_hosts(tmp_path, port=port or 0) as here:
            assert (await here.joined(1)).attempts == ("1.1",)
            assert (await here.ended("1.1")).exit_code == 6
            agent.terminate()
            code, said = await over(agent)
            assert code == 0
            assert said.count(f"connected to 127.0.0.1:{port}\n") == 2
            await here.until(lambda: any(isinstance(one, AgentLost) for one in here.reports))

    asyncio.run(test())


@pytest.mark.live
def test_a_wrong_token_or_fingerprint_is_refused_in_one_line(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with far_hosts(tmp_path) as here:
            code, said = await over(far_agent(here, token="guess"))
            assert code == 2
            assert said == "warren agent: the daemon refuses this agent: the token is wrong\n"
            code, said = await over(far_agent(here, fingerprint="0" * 64))
            assert code == 2
            assert said.startswith("warren agent: its certificate has another fingerprint")
            assert said.count("\n") == 1
            assert here.reports == []
            assert any("the token is wrong" in line for line in here.lines)

    asyncio.run(test())


def test_what_a_stranger_says_ends_its_connection_with_one_line(tmp_path: Path) -> None:
    lines = [
        b"GET / HTTP/1.1\r\n\r\n",
        messages.encode(CommandEnded("here", "1.1", 5, "exit", 0)),
        b"x" * (messages.HELLO_BYTES + 1),
        messages.encode(Hello(MACHINE, (), "id", protocol=99)),
    ]

    async def test() -> None:
        async with far_hosts(tmp_path) as here:
            for line in lines:
                reader, writer = await asyncio.open_unix_connection(str(tmp_path / "agent.sock"))
                writer.write(line)
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            assert here.reports == []
            assert len(here.lines) == len(lines)
            assert all("\n" not in line for line in here.lines)

    asyncio.run(test())


async def joined_by_hand(
    here: World, agent: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(here.home / "agent.sock"))
    writer.write(messages.encode(Hello(MACHINE, (), agent)))
    return reader, writer


def test_a_report_is_of_the_host_that_sent_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with far_hosts(tmp_path) as here:
            _, writer = await joined_by_hand(here, "id")
            writer.write(messages.encode(CommandEnded("another", "1.1", 5, "exit", 0)))
            assert (await here.ended("1.1")).host == "far"
            writer.close()

    asyncio.run(test())


def test_an_agent_that_connects_again_takes_the_place_of_its_first_connection(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with far_hosts(tmp_path) as here:
            first, writer = await joined_by_hand(here, "id")
            await here.joined(1)
            _, second = await joined_by_hand(here, "id")
            await here.joined(2)
            kinds = [type(one) for one in here.reports]
            assert kinds == [AgentJoined, AgentLost, AgentJoined]
            with contextlib.suppress(ConnectionError):
                await first.read()
            stranger, third = await joined_by_hand(here, "another")
            answer = messages.decode_order((await stranger.readline()).rstrip())
            assert isinstance(answer, messages.HelloRefused)
            assert "another agent is connected as 'far'" in answer.reason
            for one in (writer, second, third):
                one.close()

    asyncio.run(test())


def test_a_silent_agent_is_lost_and_its_logs_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "BEAT_S", 0.01)

    async def test() -> None:
        async with far_hosts(tmp_path, lost_s=0.05) as here:
            _, writer = await joined_by_hand(here, "id")
            await here.joined(1)
            reading = asyncio.ensure_future(here.hosts.read_log("far", "1.1", 0, 10))
            with pytest.raises(HostNotConnected, match="'far' is not connected"):
                await reading
            assert isinstance(here.reports[-1], AgentLost)
            assert "silent" in here.reports[-1].reason
            with pytest.raises(HostNotConnected):
                await here.hosts.read_log("far", "1.1", 0, 10)
            writer.close()

    asyncio.run(test())


@pytest.mark.live
def test_an_agent_that_stands_still_is_lost_and_joins_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with world(tmp_path, lost_s=0.3) as here:
            stopped = here.agent
            here.start("1.1", "sh", "-c", "while [ ! -e $MARK ]; do sleep 0.01; done")
            await here.started("1.1")
            os.kill(stopped, signal.SIGSTOP)
            await here.until(lambda: any(isinstance(one, AgentLost) for one in here.reports))
            os.kill(stopped, signal.SIGCONT)
            await here.joined(2)
            (tmp_path / "mark").touch()
            assert (await here.ended("1.1")).exit_code == 0

    asyncio.run(test())


def test_an_agent_elsewhere_cannot_take_the_name_of_the_daemons_machine(tmp_path: Path) -> None:
    hosts = AgentHosts(tmp_path, name="far", listen=("127.0.0.1", 0))
    hosts.credentials = credentials(tmp_path / "tls")
    hello = Hello(MACHINE, (), "id", hosts.credentials.token)
    assert "'far' is the daemon's own machine" in (hosts.why_not(hello, local=False) or "")
    assert hosts.why_not(hello, local=True) is None
    nameless = msgspec.structs.replace(hello, machine=Machine("", (), "boot", 1, 1, "", "0"))
    assert "host name is empty" in (hosts.why_not(nameless, local=True) or "")
