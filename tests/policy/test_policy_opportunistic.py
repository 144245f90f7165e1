"""Hosts that come and go unannounced, in virtual time: what `cruise` does, and what is told."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from test_policy_shapes import described, round_s, simulated

import warren
from warren.model.errors import SpecError


def opportunistic(hosts: list[int], absences: list[dict[str, Any]], **options: Any) -> Any:
    """Four hosts, of which these may go; ``absences``: when they are away."""
    run = described(4, 4, {"A": "0.5 s"}, "cruise", rounds=40, **options)
    for host in hosts:
        run["cluster"]["hosts"][host]["opportunistic"] = True
    run["truth"] = {"absences": absences}
    return run


def away(host: int, begin_s: float, end_s: float | None = None) -> dict[str, Any]:
    until = {} if end_s is None else {"until": f"{end_s} s"}
    return {"host": f"h{host}", "from": f"{begin_s} s", **until}


def test_a_host_that_comes_is_used_from_the_next_round_and_one_that_goes_is_left(
    tmp_path: Path,
) -> None:
    """Two of four hosts are there from 20.1 s to 40.1 s; nothing says so ahead. At the loss the job
    goes back to its last barrier, and has lost nothing but the round under way."""
    absences = [away(2, 0, 20.1), away(3, 0, 20.1), away(2, 40.1), away(3, 40.1)]
    history = simulated(tmp_path, opportunistic([2, 3], absences))
    two, four = 0.2 * 2 + 0.5 * 2, 0.3 * 2 + 0.5
    times = round_s(history)
    assert times[0] == pytest.approx(two)
    assert min(times) == pytest.approx(four)
    assert times[-1] == pytest.approx(two)
    moves = [(move.round, sorted(move.servers)) for move in history.moves]
    (back,) = history.rollbacks
    assert [servers for _, servers in moves] == [[0, 1, 2, 3], [0, 1]]
    # It begins again with the round that was under way: none that had passed is lost.
    assert back.event.time_ns == 40_100_000_000
    assert back.passed == back.event.round == moves[1][0]
    line = history.timeline
    starts, device = line.start_ns_R / 1e9, line.device_R
    gone = (starts < 20.1) | (starts >= 40.1)
    assert set(device[gone].tolist()) == {0, 1}
    assert set(device.tolist()) == {0, 1, 2, 3}


def test_the_summary_tells_at_which_round_a_host_changed_a_shape(tmp_path: Path) -> None:
    run = opportunistic([3], [away(3, 0, 15), away(3, 30)])
    result = warren.simulate(run, out=tmp_path / "out")
    assert result.folder is not None
    came, went = result.summary["hosts_changed"][1:]
    moved = [(row["round"], row["servers"]) for row in result.summary["servers_moved"]]
    assert (came["host"], came["there"], came["time_s"]) == ("h3", True, 15.0)
    assert (went["host"], went["there"], went["time_s"]) == ("h3", False, 30.0)
    (first,), (second,) = came["shapes"], went["shapes"]
    assert first["workers"] == ["h0", "h1", "h2", "h3"]
    assert "h3" not in second["workers"]
    # The round at hand when the host came goes on; the next one begins at the new servers.
    assert (first["round"] + 1, second["round"]) == (moved[0][0], moved[1][0])
    assert result.summary["rolled_back"][0]["reason"] == "host h3 is gone"


def test_a_job_that_states_checkpoints_goes_back_to_the_last_of_them(tmp_path: Path) -> None:
    run = opportunistic([3], [away(3, 20)])
    run["workload"]["jobs"][0]["checkpoint"] = {"every": 7}
    (back,) = simulated(tmp_path, run).rollbacks
    assert back.event.round == back.passed // 7 * 7 < back.passed


def test_a_host_on_which_a_job_has_nothing_may_go_and_the_job_goes_on(tmp_path: Path) -> None:
    """By (3.4) with one task a round one host works and one serves: two are idle."""
    run = opportunistic([3], [away(3, 10)])
    run["workload"]["jobs"][0] |= {"scale": 1}
    history = simulated(tmp_path, run)
    assert not history.rollbacks
    assert not history.moves
    assert len(history.host_changes) == 1


def test_a_host_costs_while_it_is_there(tmp_path: Path) -> None:
    """Two hosts at 3.6 an hour stay; one at 0.36 is there for 20 s of the run."""
    run = described(3, 3, {"A": "0.5 s"}, "cruise", rounds=40)
    for host, price in zip(run["cluster"]["hosts"], (3.6, 3.6, 0.36), strict=True):
        host["price"] = price
    run["cluster"]["hosts"][2]["opportunistic"] = True
    run["truth"] = {"absences": [away(2, 0, 10), away(2, 30)]}
    result = warren.simulate(run, out=tmp_path / "out")
    makespan_s = result.summary["makespan_s"]
    assert result.summary["cost"] == pytest.approx((2 * 3.6 * makespan_s + 0.36 * 20) / 3600)


def test_without_prices_a_run_has_no_cost(tmp_path: Path) -> None:
    result = warren.simulate(described(3, 3, {"A": "0.5 s"}, "cruise", rounds=5))
    assert "cost" not in result.summary


@pytest.mark.parametrize("seed", range(6))
def test_whenever_hosts_come_and_go_each_round_is_counted_once(seed: int, tmp_path: Path) -> None:
    """Three jobs, drawn times: in queues, in the middle of pulls, of pushes and of migrations."""
    draw = random.Random(seed)
    absences, now_s = [], 0.0
    for _ in range(8):
        now_s += draw.uniform(0.2, 6)
        ends_s = now_s + draw.uniform(0.05, 4)
        absences.append(away(2, now_s, ends_s))
        if draw.random() < 0.5:
            absences.append(away(3, now_s + 0.01, ends_s - 0.01))
        now_s = ends_s
    run = opportunistic([2, 3], absences)
    first = run["workload"]["jobs"][0]
    first["rounds"] = 20
    run["workload"]["jobs"] += [
        {**first, "name": "two", "scale": 2, "arrival": "3 s", "checkpoint": {"every": 4}},
        {**first, "name": "three", "arrival": "9 s"},
    ]
    history = simulated(tmp_path, run)
    assert history.rollbacks
    for job in range(3):
        rounds = [one.round for one in history.rounds if one.job == job]
        assert rounds == list(range(20))
    tasks = sum(len(event.shards) for event in history.dropped)
    assert tasks == 0
    assert int(history.timeline.tasks_R.sum()) == 20 * (4 + 2 + 4)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scheduler": {"place": "srtf"}}, "shape static does not follow hosts that come and go"),
        ({"truth": {"absences": [away(1, 3)]}}, "h1 is not opportunistic"),
        ({"truth": {"absences": [away(9, 3)]}}, "there is no host 'h9'"),
        ({"truth": {"absences": [away(3, 3, 2)]}}, "until must come after from"),
        ({"truth": {"absences": [away(3, 3, 9), away(3, 5)]}}, "h3 is gone then already"),
    ],
)
def test_hosts_that_cannot_come_and_go_are_refused_before_the_run(
    change: dict[str, Any], why: str
) -> None:
    with pytest.raises(SpecError, match=why):
        warren.simulate(opportunistic([3], []) | change)


def test_a_host_that_is_not_there_is_said_once_however_its_absences_meet() -> None:
    with pytest.raises(SpecError) as caught:
        warren.simulate(opportunistic([3], []) | {"truth": {"absences": [away(9, 3), away(9, 5)]}})
    assert "gone then already" not in str(caught.value)


def test_one_host_with_devices_stays() -> None:
    with pytest.raises(SpecError, match="all hosts with devices are opportunistic"):
        warren.simulate(opportunistic([0, 1, 2, 3], []))


def test_the_run_file_of_a_result_has_hosts_prices_and_absences_again(tmp_path: Path) -> None:
    run = opportunistic([3], [away(3, 0, 15), away(3, 30)])
    for host in run["cluster"]["hosts"]:
        host["price"] = 0.5
    first = warren.simulate(run, out=tmp_path / "out")
    again = warren.simulate(tmp_path / "out" / "run.yaml")
    for key in ("hosts_changed", "cost", "makespan_s"):
        assert again.summary[key] == first.summary[key]


def test_all_hosts_have_a_price_or_none() -> None:
    run = opportunistic([3], [])
    run["cluster"]["hosts"][1]["price"] = 1
    with pytest.raises(SpecError, match="other hosts have a price; allowed: all or none"):
        warren.simulate(run)
