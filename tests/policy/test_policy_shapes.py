"""Policies that answer shape, over simulated rounds on links: what they choose, when, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from immutables import Map

import warren
from warren.core.journal_reader import History
from warren.model.decision import NOTHING, Decision
from warren.model.errors import SpecError
from warren.model.events import ServersMoved, TasksDone
from warren.model.view import View
from warren.policy.registry import policy_of
from warren.policy.shape.cruise import Choice, Cruise, ShapeMemory
from warren.policy.shape.measured import Measured
from warren.policy.shape.optimus import Optimus, OptimusMemory, fitted, grown
from warren.report.checks.check import check
from warren.runs.results import load_record


def described(
    hosts: int, scale: int, comp: dict[str, str], shape: str, *, rounds: int = 40,
    workers: int = 0, options: dict[str, Any] | None = None, types: tuple[str, ...] = ("A",),
    nic: tuple[str, ...] = ("0.4 Gbps",),
) -> dict[str, Any]:  # fmt: skip
    """A job of 20 MB on hosts of one device. ``workers``: so many work at first, others serve."""
    names = [f"h{at}" for at in range(hosts)]
    job: dict[str, Any] = {
        "name": "one",
        "model": "m",
        "scale": scale,
        "rounds": rounds,
        "batch": 1,
    }
    if workers:
        job |= {"workers": {"hosts": names[:workers]}, "servers": {"hosts": names[workers:]}}
    cluster = {
        "format": 1, "network": {"model": "fluid"},
        "hosts": [
            {"name": name, "devices": {types[at % len(types)]: 1}, "nic": nic[at % len(nic)]}
            for at, name in enumerate(names)
        ],
    }  # fmt: skip
    row = {"model": "20 MB", "comp": comp, "sync": dict.fromkeys(comp, "0.1 s")}
    scheduler = {"place": "srtf", "shape": shape}
    return {
        "format": 1, "name": "shapes", "cluster": cluster, "profiles": {"m": row},
        "workload": {"jobs": [job]}, "scheduler": scheduler,
        "policy": {"shape": options or {}}, "seed": 1,
    }  # fmt: skip


def simulated(folder: Path, run: dict[str, Any]) -> History:
    result = warren.simulate(run, out=folder / "out")
    assert result.folder is not None
    files = {path.name: path.read_bytes() for path in result.folder.iterdir()}
    # Among others, that each link carried what rounds send and what moves from server to server.
    assert check(files) == []
    history = load_record("shapes", files).history
    assert len(result.summary.get("servers_moved", [])) == len(history.moves)
    return history


def round_s(history: History) -> list[float]:
    """The time from barrier to barrier; not of the last round, whose parameters are written."""
    barriers = np.array([event.barrier_ns for event in history.rounds]) / 1e9
    return np.diff(barriers)[:-1].round(6).tolist()


def test_a_job_begins_in_the_shape_that_is_best_by_what_is_known(tmp_path: Path) -> None:
    """All eight hosts do both: 7/8 of 20 MB over 50 MB/s, half a second, and as long back."""
    history = simulated(tmp_path, described(8, 8, {"A": "0.5 s"}, "cruise"))
    assert set(round_s(history)) == {2 * 0.35 + 0.5}
    assert not history.moves


def test_from_a_bad_start_servers_move_once_enough_rounds_were_measured(tmp_path: Path) -> None:
    """One server of eight hosts: seven of eight tasks, two on one host. Five rounds are measured
    beyond the first; the answer comes at a barrier, and stands from the next one on."""
    history = simulated(tmp_path, described(8, 8, {"A": "0.5 s"}, "cruise", workers=7))
    (move,) = history.moves
    assert (move.round, move.far_bytes, move.took_ns) == (7, 17_500_000, 350_000_000)
    times = round_s(history)
    assert times[-1] == 1.2 < times[0] / 4
    # As printed, (3.4) lets four work and four serve.
    other = simulated(
        tmp_path / "p", described(8, 8, {"A": "0.5 s"}, "cruise-published", workers=7)
    )
    assert other.moves[0].far_bytes == 15_000_000
    assert round_s(other)[-1] == pytest.approx(0.4 + 1.0 + 0.4)


def test_a_gain_below_the_threshold_moves_nothing(tmp_path: Path) -> None:
    options = {"threshold": 0.9}
    run = described(8, 8, {"A": "0.5 s"}, "cruise", workers=7, options=options)
    assert not simulated(tmp_path, run).moves


def test_slow_hosts_serve_where_that_is_better_and_speeds_are_those_measured(
    tmp_path: Path,
) -> None:
    """Half of the hosts take ten times as long: with every host at work, rounds wait for them."""
    comp = {"fast": "0.2 s", "slow": "2 s"}
    run = described(6, 6, comp, "cruise", types=("fast", "slow"))
    times = round_s(simulated(tmp_path, run))
    everyone = round_s(
        simulated(tmp_path / "all", described(6, 6, comp, "all", types=("fast", "slow")))
    )
    assert np.mean(times) < 0.6 * np.mean(everyone)


def test_optimus_finds_the_coefficients_and_the_peak_of_its_own_function() -> None:
    real = np.array([2.0, 0.1, 0.3, 0.05, 0.08])
    shapes = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)]

    def takes_s(workers: int, servers: int) -> float:
        terms = [12 / workers, 1.0, workers / servers, workers, servers]
        return float(real @ np.array(terms))

    found = fitted({one: takes_s(*one) for one in shapes}, 12)
    assert found == pytest.approx(real, abs=1e-6)
    workers, servers = grown(found, 12, 32)
    best = min(
        ((w, s) for w in range(1, 32) for s in range(1, 33 - w)), key=lambda one: takes_s(*one)
    )
    # Greedy: no single host more, nor one fewer that it has added last, is better.
    assert takes_s(workers, servers) <= takes_s(workers + 1, servers)
    assert takes_s(workers, servers) <= takes_s(workers, servers + 1)
    assert takes_s(workers, servers) <= 1.1 * takes_s(*best)
    assert sum(grown(found, 12, 5)) <= 5


def test_optimus_measures_small_shapes_first_and_then_grows(tmp_path: Path) -> None:
    history = simulated(tmp_path, described(8, 8, {"A": "0.5 s"}, "optimus", rounds=60))
    times = round_s(history)
    assert times[-1] < 0.6 * times[0]
    assert len(history.moves) >= 3


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("cruise", {"threshold": 1.5}, "threshold is 1.5"),
        ("cruise", {"after": 0}, "after and every count rounds"),
        ("cruise-published", {"reading": "fast"}, "allowed: nic, server, published"),
        ("optimus", {"after": 0}, "after counts rounds"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    name: str, options: dict[str, object], text: str
) -> None:
    with pytest.raises(SpecError, match=text):
        policy_of("shape", name, options)


def test_hosts_that_come_and_go_are_used_while_they_are_there(tmp_path: Path) -> None:
    """Two of four hosts are away at first, there from 20 s to 40 s, and away again; at 20 s the
    round has 21.4 s to its end, and the one behind it begins at the new servers."""
    options = {"away": "h2 h3: 0-20 40-"}
    run = described(4, 4, {"A": "0.5 s"}, "cruise", rounds=40, options=options)
    history = simulated(tmp_path, run)
    two, four = 0.2 * 2 + 0.5 * 2, 0.3 * 2 + 0.5
    times = round_s(history)
    assert times[0] == pytest.approx(two)
    assert min(times) == pytest.approx(four)
    assert times[-1] == pytest.approx(two)
    began = [move.time_ns / 1e9 for move in history.moves]
    assert len(began) == 2
    assert 20 <= began[0] <= 20 + two + 0.5
    assert 40 <= began[1] <= 40 + four + 0.5
    # Nobody works or serves where nobody is.
    line = history.timeline
    starts, device = line.start_ns_R / 1e9, line.device_R
    assert set(device[starts < 20].tolist()) == {0, 1}
    assert set(device[starts > 42].tolist()) == {0, 1}
    assert set(device.tolist()) == {0, 1, 2, 3}


def test_a_server_on_a_host_that_is_away_moves_as_soon_as_enough_rounds_were_measured(
    tmp_path: Path,
) -> None:
    """Whatever it gains: by the cost model nobody serves where nobody is."""
    options = {"away": "h2: 0-", "threshold": 0.99}
    run = described(3, 4, {"A": "0.5 s"}, "cruise", rounds=20, options=options)
    run["workload"]["jobs"][0]["servers"] = {"hosts": ["h2"]}
    (move,) = simulated(tmp_path, run).moves
    assert move.round <= 8
    assert 2 not in move.servers


def test_optimus_measures_the_servers_that_stayed_where_a_shape_was_void() -> None:
    memory = OptimusMemory(now=Map({0: (2, 3)}), moving=frozenset({0}))
    void = ServersMoved(9, 0, 4, 0, 0, (1,), (), "a new one ended")
    _, memory = Optimus().decide(SimpleNamespace(changes=(void,)), memory)  # type: ignore[arg-type]
    assert memory.now[0] == (2, 1)
    assert not memory.moving


def test_a_shape_whose_servers_never_come_up_is_tried_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of what it answers is done, and it hears that new servers have ended: after 5, 10,
    20, ... rounds it tries again."""
    decide, tried = Cruise.decide, list[int]()
    void = ServersMoved(0, 0, 0, 0, 0, (7,), (), "a new one ended")

    def unheard(self: Cruise, view: View, memory: ShapeMemory) -> tuple[Decision, ShapeMemory]:
        told = (void, *view.changes) if memory.moving else view.changes
        decision, memory = decide(self, msgspec.structs.replace(view, changes=told), memory)
        if memory.moving:
            tried.append(int(view.round_J[0]))
            decision = NOTHING
        return decision, memory

    monkeypatch.setattr(Cruise, "decide", unheard)
    simulated(tmp_path, described(8, 8, {"A": "0.5 s"}, "cruise", workers=7, rounds=200))
    # And one round more each time: the first that ends is not measured.
    assert np.diff([0, *tried]).tolist() == [6, 11, 21, 41, 81]


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("task_cv", [0.1, 0.3])
def test_cruise_does_not_move_between_equal_hosts_on_noise(
    task_cv: float, seed: int, tmp_path: Path
) -> None:
    """It is best to have one of four equal hosts do all; which one is all the same."""
    history = simulated(tmp_path, noisy({"task_cv": task_cv, "seed": seed}))
    assert len(history.moves) == 1
    assert len({int(one) for one in history.timeline.device_R[-400:]}) == 1


def test_means_of_hosts_count_apart_beyond_noise_and_alike_again_when_they_are_old() -> None:
    """Host 1 takes half as long as 0 and 2; host 3 was not measured. The table has them alike."""
    draw, measured = np.random.default_rng(1), Measured()
    view: Any = SimpleNamespace(
        hosts=SimpleNamespace(devices_H=np.ones(4), devices_HT=np.ones((4, 1), dtype=np.int64)),
        costs=SimpleNamespace(comp_ns_JT=np.array([[1e7]]), fits_JT=np.array([[True]])),
        round_J=np.array([20]),
    )
    for number in range(20):
        for host, took_s in enumerate((0.02, 0.01, 0.02)):
            busy_ns = int(took_s * 1e9 * draw.lognormal(0, 0.1))
            done = TasksDone(0, 0, number, 1, (host,), host, 0, busy_ns, busy_ns)
            measured = measured.computed(done, host)
    slow, fast, other, unknown = measured.task_s_H(view, 0).tolist()
    assert slow == other == pytest.approx(0.02, rel=0.1)
    assert fast == pytest.approx(0.01, rel=0.1)
    assert fast < unknown < slow
    view.round_J[0] = 800
    assert len(set(measured.task_s_H(view, 0).tolist())) == 1


def noisy(truth: dict[str, Any]) -> dict[str, Any]:
    """Four equal hosts, three of which work at first, in front of slow links."""
    run = described(
        4, 4, {"A": "0.01 s"}, "cruise", workers=3, rounds=150, nic=("50 Mbps",)
    )  # fmt: skip
    run["profiles"]["m"]["model"] = "3.6 MB"
    return run | {"truth": truth}


@pytest.mark.parametrize("stated", [1 / 100, 1 / 10])
def test_cruise_decides_by_rates_of_links_that_it_has_measured(
    stated: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links carry ten and a hundred times what the cluster file states."""
    decide = Cruise.decide

    def told(self: Cruise, view: View, memory: ShapeMemory) -> tuple[Decision, ShapeMemory]:
        hosts = tuple(replace(one, nic_bps=one.nic_bps * stated) for one in view.cluster.hosts)
        other = replace(view.cluster, hosts=hosts)
        return decide(self, msgspec.structs.replace(view, cluster=other), memory)

    monkeypatch.setattr(Cruise, "decide", told)
    run = described(4, 4, {"A": "0.5 s"}, "cruise", workers=3, rounds=30)
    # All do both: 3/4 of 20 MB over 50 MB/s, half a second, and as long back.
    assert round_s(simulated(tmp_path, run))[-1] == pytest.approx(2 * 0.3 + 0.5)


def test_cruise_goes_back_where_rounds_did_not_get_shorter_and_tries_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cost model that is wrong: what it finds best, one worker and one server, is the worst."""
    answered = list[tuple[int, tuple[int, ...]]]()
    decide = Cruise.decide

    def seen(self: Cruise, view: View, memory: ShapeMemory) -> tuple[Decision, ShapeMemory]:
        decision, memory = decide(self, view, memory)
        answered.extend((int(view.round_J[0]), one.servers) for one in decision.shapes.values())
        return decision, memory

    def worst(*_: object) -> Choice:
        return Choice(np.eye(8, dtype=bool)[0], np.eye(8)[7], 0.1)

    monkeypatch.setattr(Cruise, "decide", seen)
    monkeypatch.setattr(Cruise, "best", worst)
    monkeypatch.setattr(Cruise, "takes_s", lambda *_: 1.0)
    run = described(8, 8, {"A": "0.5 s"}, "cruise", workers=5, rounds=120)
    history = simulated(tmp_path, run)
    first, *rest = answered
    assert first == (0, (5, 6, 7))
    away, back = rest[::2], rest[1::2]
    assert {servers for _, servers in away} == {(7,)}
    assert {servers for _, servers in back} == {(5, 6, 7)}
    tried = [there - here for (here, _), (there, _) in zip([first, *back], away, strict=False)]
    assert tried == [6, 12, 22, 42][: len(tried)]
    assert len(tried) >= 3
    assert round_s(history)[-1] == round_s(history)[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("h1", "allowed: HOST HOST: FROM-TO"),
        ("h1: 5", "allowed: HOST HOST: FROM-TO"),
        ("h1: 9-3", "ends before it begins"),
        (": 1-2", "allowed: HOST HOST: FROM-TO"),
    ],
)
def test_absences_of_another_form_are_refused(text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        policy_of("shape", "cruise", {"away": text})


@pytest.mark.parametrize("name", ["cruise", "cruise-published", "optimus"])
def test_a_place_policy_that_does_not_keep_to_shapes_is_refused_before_the_run(
    name: str, tmp_path: Path
) -> None:
    run = described(4, 4, {"A": "0.5 s"}, name)
    run["scheduler"]["place"] = "gavel-fifo"
    with pytest.raises(SpecError, match=f"gavel-fifo does not keep to the hosts that shape {name}"):
        simulated(tmp_path, run)


@pytest.mark.parametrize("question", ["shape", "group"])
@pytest.mark.parametrize("place", ["fifo", "gavel-fifo", "hare", "hlas"])
def test_a_place_policy_that_does_not_keep_to_stated_hosts_is_refused_before_the_run(
    question: str, place: str, tmp_path: Path
) -> None:
    """As for ``cruise``; before, the simulation ended with an internal message, or for ever."""
    run = stated_hosts(question, ["h0", "h1"])
    simulated(tmp_path, run)
    run["scheduler"]["place"] = place
    with pytest.raises(SpecError, match=f"{place} does not keep to the hosts that {question} "):
        simulated(tmp_path / "other", run)
    # Where all hosts are stated no task is bound.
    run = stated_hosts(question, ["h0", "h1", "h2", "h3"])
    run["scheduler"]["place"] = place
    simulated(tmp_path / "all", run)


def stated_hosts(question: str, hosts: list[str]) -> dict[str, Any]:
    """A job whose tasks are to be on these of four hosts."""
    run = described(4, 4, {"A": "0.5 s"}, "static", rounds=3)
    run["scheduler"][question] = "fixed"
    if question == "shape":
        run["workload"]["jobs"][0]["workers"] = {"hosts": hosts}
    else:
        run["policy"] = {"group": {"groups": [{"jobs": ["one"], "hosts": hosts}]}}
    return run


def test_stretches_of_several_rounds_are_looked_at_as_soon_as_single_ones(tmp_path: Path) -> None:
    """Stretches of 4: the third barrier brings rounds 5 to 8 of those that are measured."""
    run = described(8, 8, {"A": "0.5 s"}, "cruise", workers=7) | {"grain": "4 rounds"}
    (move,) = simulated(tmp_path, run).moves
    assert move.round <= 16
