"""A host that is added and one taken away while `cruise` trains: same bits, rounds named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from agent_worlds import AGENT, warm_agents
from bed_worlds import NAME, standing_bed
from live_apps import APPS

import warren
from warren.core.journal_reader import History, read_history
from warren.live.control.local_engine import LivePort
from warren.live.testbed import names
from warren.model.events import AnyEvent, HostJoined, HostLeft, RoundsDone, TasksDone

LEASE_S = 3.0
ROUNDS = 150
GATED = """

class Gated(Tiny):
    gate: str = ""

    def loss(self, model, batch):
        if not os.path.exists(self.gate):
            time.sleep(0.1)
        return super().loss(model, batch)
"""
"""Slow until a file is there: until the host has gone, however long its coming takes."""


@pytest.fixture(scope="module")
def bed(can_make_testbeds: None) -> Iterator[None]:
    with standing_bed(3):
        yield


def described(engine: str, gate: Path) -> dict[str, Any]:
    """A job of three tasks a round on three hosts, each best on one of its own."""
    hosts = [
        {"name": f"h{i}", "devices": {"cpu": 1}, "nic": "200 Mbps"}
        | ({"opportunistic": True} if i == 2 else {})
        for i in range(3)
    ]
    job = {
        "name": "one", "app": "apps.py:Gated", "model": "tiny", "scale": 3, "rounds": ROUNDS,
        "batch": 4, "seed": 5, "checkpoint": {"every": 5},
        "params": {"width": 2000, "gate": str(gate)},
    }  # fmt: skip
    cluster = {
        "hosts": hosts, "network": {"model": "fluid"}, "engine": engine,
        "local": {"testbed": NAME, "lease": f"{LEASE_S} s"},
    }  # fmt: skip
    if engine == "plain":
        cluster = {"hosts": [{"name": "h", "devices": {"cpu": 1}}], "engine": "plain"}
    row = {"model": "48 kB", "comp": {"cpu": "100 ms"}, "sync": {"cpu": "1 ms"}}
    shape = {"policy": {"shape": {"after": 1000}}}  # nothing but hosts changes a shape
    return {
        "format": 1, "name": "coming", "cluster": cluster, "workload": {"jobs": [job]},
        "profiles": {"tiny": row}, "seed": 1,
        "scheduler": {"place": "srtf", "shape": "cruise" if engine == "local" else "static"},
    } | (shape if engine == "local" else {})  # fmt: skip


def set_link(host: int, state: str) -> None:
    link = ["ip", "-n", names.switch(NAME), "link", "set", names.port(host), state]
    subprocess.run(link, check=True)


def run_of(folder: Path, engine: str) -> Any:
    (folder / "apps.py").write_text(APPS + GATED)
    path = folder / f"{engine}.yaml"
    path.write_text(yaml.safe_dump(described(engine, folder / "gate")))
    return warren.run(path, out=folder / engine)


@pytest.mark.live
@pytest.mark.machine
@pytest.mark.usefixtures("bed")
def test_a_host_added_and_taken_away_leaves_the_bits_of_plain_and_its_rounds_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is not there when the run begins, comes after some rounds, and goes for good."""
    set_link(2, "down")
    deliver = LivePort._deliver

    def watched(port: LivePort, events: tuple[AnyEvent, ...]) -> None:
        deliver(port, events)
        for event in events:
            if isinstance(event, RoundsDone) and event.round == 5 and not done:
                done.append("up")
                set_link(2, "up")
            elif isinstance(event, TasksDone) and event.device == 2 and done == ["up"]:
                done.append("down")
                set_link(2, "down")
            elif isinstance(event, HostLeft) and done == ["up", "down"]:
                (tmp_path / "gate").touch()

    done: list[str] = []
    warm_agents(monkeypatch, tmp_path, lambda spec: AGENT)
    monkeypatch.setattr(LivePort, "_deliver", watched)
    try:
        result = run_of(tmp_path, "local")
    finally:
        set_link(2, "up")
    monkeypatch.undo()
    plain = run_of(tmp_path, "plain")
    assert done == ["up", "down"]
    assert sha256(result) == sha256(plain)
    history = read_history((tmp_path / "local" / "journal").read_bytes())
    kinds = [type(event) for event in history.host_changes]
    # A busy machine may lose the host once more.
    assert (kinds[0], kinds[-1]) == (HostLeft, HostLeft)
    assert HostJoined in kinds
    assert_named(history, result.summary)


def sha256(result: Any) -> str:
    return str(result.job("one").row["params_sha256"])


def assert_named(history: History, summary: dict[str, Any]) -> None:
    """At each change the record names the round at hand, and the hosts from then on."""
    changes = summary["hosts_changed"]
    came, went = next(one for one in changes if one["there"]), changes[-1]
    (joined,), (left,) = came["shapes"], went["shapes"]
    assert "h2" in joined["workers"]
    assert "h2" not in left["workers"] + left["servers"]
    assert 0 < joined["round"] <= left["round"] < ROUNDS
    # No task that counts of a round behind the loss was on the host.
    line = history.timeline
    late = line.round_R >= left["round"]
    assert set(line.device_R[late].tolist()) <= {0, 1}
    assert any("its host was lost" in one["reason"] for one in summary["rolled_back"])
