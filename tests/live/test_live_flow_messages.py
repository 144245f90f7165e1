"""Coordinator and agents believe nothing that is not proven, whole and allowed."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.enforcement.coordination import messages
from warren.live.enforcement.coordination.messages import agent_said, coordinator_said
from warren.live.enforcement.coordination.peer_address import PeerAddress, peer_address
from warren.live.enforcement.coordination.token_file import read_secret
from warren.model.errors import SpecError

REFUSED = (msgspec.MsgspecError, SpecError)


def _hello(**fields: object) -> dict[str, object]:
    return {
        "type": "hello",
        "protocol": 2,
        "agent": "a",
        "instance": b"i" * 16,
        "jobs": ["x"],
    } | fields


def _gain(**fields: object) -> dict[str, object]:
    return {"type": "gain", "period": 1, "job": "x", "gain": 0.5} | fields


def _nodes(**fields: object) -> dict[str, object]:
    told = {"type": "nodes", "job": "x", "endpoints": [], "reads": True, "ended": False}
    return told | fields


def _peer(address: str, flow_class: int) -> dict[str, object]:
    return {"address": address, "flow_class": flow_class}


@pytest.mark.parametrize(
    "said",
    [
        _hello(more=1),
        _hello(agent="../a"),
        _hello(agent=7),
        _hello(jobs=["X y"]),
        _hello(jobs=["x", "x"]),
        _hello(jobs=["x"] * 300),
        _hello(instance=b"short"),
        _gain(gain=float("nan")),
        _gain(gain=float("inf")),
        _gain(gain=-1.0),
        _gain(gain="0.5"),
        _gain(period=-1),
        _gain(job="x;y"),
        _nodes(endpoints=[{"address": "eth0", "ports": []}]),
        _nodes(endpoints=[{"address": "10.0.0.1", "ports": [[5, 4]]}]),
        _nodes(endpoints=[{"address": "", "ports": []}]),
        _nodes(endpoints=[{"address": "10.0.0.1", "ports": []}] * 65),
        {"type": "classes", "period": 1, "classes": {}},
        {"type": "nothing"},
        [1, 2],
    ],
)
def test_an_agent_may_say_only_what_is_allowed(said: object) -> None:
    for right in (_hello(), _gain(), _gain(gain=None), _nodes()):
        agent_said(msgspec.msgpack.encode(right))
    with pytest.raises(REFUSED):
        agent_said(msgspec.msgpack.encode(said))


@pytest.mark.parametrize(
    "said",
    [
        {"type": "classes", "period": 1, "classes": {"x": 8}},
        {"type": "classes", "period": 1, "classes": {"x": -1}},
        {"type": "classes", "period": 1, "classes": {"x": 1}, "queues": {"x": 8}},
        {"type": "classes", "period": 1, "classes": {"x": 1}, "queues": {"y": 1}},
        {"type": "classes", "period": 1, "classes": {}, "peers": {"y": []}},
        {"type": "classes", "period": 1, "classes": {"x": 1}, "peers": {"x": [_peer("eth0", 1)]}},
        {"type": "classes", "period": 1, "classes": {"x": 1}, "peers": {"x": [_peer("::1", 8)]}},
        {"type": "classes", "period": 1, "classes": {"../x": 1}},
        {"type": "ask", "period": 1, "jobs": ["x y"]},
        {"type": "welcome", "period_s": 0.0, "keep_periods": 1, "seed": 0},
        {"type": "welcome", "period_s": 1.0, "keep_periods": 0, "seed": 0},
        {"type": "gain", "period": 1, "job": "x", "gain": 0.5},
    ],
)
def test_the_coordinator_may_say_only_what_is_allowed(said: object) -> None:
    with pytest.raises(REFUSED):
        coordinator_said(msgspec.msgpack.encode(said))


@given(body=st.binary(max_size=200))
def test_noise_is_refused_and_never_anything_else(body: bytes) -> None:
    for read in (agent_said, coordinator_said):
        with pytest.raises((*REFUSED, UnicodeDecodeError)):
            read(body)


def test_the_secret_is_its_owners_alone_when_made_and_when_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "flow.token"
    with pytest.raises(SpecError, match="No such file"):
        read_secret(path)
    secret = read_secret(path, make=True)
    assert len(secret) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_secret(path, make=True) == read_secret(path) == secret
    path.chmod(0o640)
    with pytest.raises(SpecError, match="others may read or change it; try chmod 600"):
        read_secret(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(SpecError, match="has 5 bytes; allowed: 32 to 4096"):
        read_secret(path)


def test_addresses_are_read_as_people_write_them() -> None:
    assert peer_address("--listen", "node-1:7411") == PeerAddress("node-1", 7411)
    assert str(peer_address("--listen", "[fd00::1]:7")) == "[fd00::1]:7"
    for text in ("7411", "a:70000", "fd00::1:7", "[x]:1", "[1::2::3]:1", "a b:1", ":1", "a:"):
        with pytest.raises(SpecError, match=re.escape("is no address; allowed: like 10.0.0.1")):
            peer_address("--listen", text)


def test_the_longest_message_has_room_for_all_endpoints_of_a_job() -> None:
    ranges = [[low, low] for low in range(10001, 10001 + 2 * 256, 2)]
    ends = [{"address": f"fd00::{i:x}", "ports": ranges} for i in range(1, 65)]
    body = msgspec.msgpack.encode(_nodes(endpoints=ends))
    agent_said(body)
    assert len(body) < messages.MOST_BYTES
