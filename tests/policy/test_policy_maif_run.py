"""MAIF in a simulation of links: it sees metrics and rounds, and classes change what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from immutables import Map

from warren.model.errors import SpecError
from warren.policy.common.job_traffic import JobTraffic
from warren.policy.flow.modelled_speed import modelled_step_s
from warren.policy.registry import policy_of
from warren.runs import api, compose


def test_maif_orders_jobs_by_what_a_simulation_shows_of_them() -> None:
    run = api._resolve(_two_jobs(), None)
    history = compose.simulate(run).history
    classes = {job: {kind for _, kind in history.classes_of(job)} for job in range(2)}
    # Both are in class 0 until their metric and their speed are known, then one after the other.
    assert classes[0] == {0, 1, 2} or classes[1] == {0, 1, 2}
    first = next(one for one in history.answers if one.decision.classes)
    assert first.time_ns >= 10_000_000_000


@pytest.mark.parametrize(
    ("early", "late", "first_from_s"),
    [
        ([], [], 120),  # no rate is ever cut
        ([34], [], 80),  # early's next period has a cut, so that it will jump
        ([], [46], 160),  # late's has one, and it stays first for another period
    ],
)
def test_who_will_have_its_rate_cut_in_the_next_period_gains_more_and_goes_first(
    early: list[int], late: list[int], first_from_s: int
) -> None:
    classes = _classes_from_s("expected", [early, late])
    assert classes == {40: {0: 2, 1: 1}, first_from_s: {0: 1, 1: 2}}


def test_the_published_gain_knows_of_no_cuts() -> None:
    unstated = _classes_from_s("published", [None, None])
    for steps in ([[34], []], [[], [46]]):
        assert _classes_from_s("published", steps) == unstated


def _classes_from_s(gain: str, steps: Sequence[list[int] | None]) -> dict[int, dict[int, int]]:
    """The classes of both jobs by the second from which they hold, noise of 5 % on their curves."""
    described = _two_jobs()
    for job, stated in zip(described["workload"]["jobs"], steps, strict=True):
        job |= {"rounds": 60} | ({} if stated is None else {"schedule": {"steps": stated}})
    described["policy"] = {"flow": {"period_s": 40.0, "gain": gain}}
    described["truth"] = {"losses": {"noise": 0.05, "share_to_95": 0.2}}
    history = compose.simulate(api._resolve(described, None)).history
    answers = [one for one in history.answers if one.decision.classes]
    return {round(one.time_ns / 1e9): dict(one.decision.classes) for one in answers}


def _two_jobs() -> dict[str, Any]:
    job = {"cost": "m", "sync": "ps", "scale": 2, "batch": 1, "rounds": 40}
    shows = {"evaluate": {"every": 1}, "stop": {"metric": "accuracy", "reaches": 0.9}}
    devices = {"count": 2, "devices": {"CPU": 2}, "nic": "1 Gbps"}
    return {
        "format": 1,
        "name": "two",
        "cluster": {
            "format": 1,
            "hosts": [{"name": "h", **devices}],
            "network": {"model": "fluid"},
        },
        "workload": {
            "jobs": [
                {"name": "early", **job, **shows},
                {"name": "late", **job, **shows, "arrival": "10 s"},
            ]
        },
        "profiles": {"m": {"model": "100 MB", "comp": {"CPU": "1 s"}, "sync": {"CPU": "1 s"}}},
        "scheduler": {"place": "fifo", "flow": "maif", "servers": 2},
        "policy": {"flow": {"period_s": 10.0}},
        "truth": {"losses": {"noise": 0.01}},
    }


@pytest.mark.parametrize(
    ("devices", "transfer_s"),
    # Two servers of 50 MB. On one host both workers share 125 MB/s: 100 MB each take 1.6 s. On two
    # hosts a worker has its own link, and 50 MB for two of them leave each server in 0.8 s.
    [({0: 3, 1: 3}, 1.6), ({0: 3, 2: 3}, 0.8)],
)
def test_the_mathematical_speed_is_eq_19_of_what_a_job_is_known_to_send(
    devices: dict[int, int], transfer_s: float
) -> None:
    view: Any = SimpleNamespace(
        costs=SimpleNamespace(model_bytes_J=np.array([100_000_000]), comp_ns_JT=np.array([[1e9]])),
        hosts=SimpleNamespace(host_D=np.array([0, 0, 1, 1]), devices_H=np.array([2, 2])),
        cluster=SimpleNamespace(link_bytes_per_s=(125e6, 125e6)),
        type_D=np.zeros(4, dtype=np.int64), scale_J=np.array([2]),
        shape_J=[None], servers_J=[(0, 1)],
    )  # fmt: skip
    traffic = JobTraffic(tasks=Map({0: Map(devices)}))
    most_s, least_s = 2 * transfer_s + 1.0, max(transfer_s, 1.0)
    gamma = transfer_s / (transfer_s + 1.0) * most_s / (most_s + least_s)
    expected = (1 - gamma) * most_s + gamma * least_s
    assert modelled_step_s(view, traffic, 0) == pytest.approx(expected)
    view.costs.model_bytes_J = None
    assert modelled_step_s(view, traffic, 0) is None


def test_gains_are_of_as_many_steps_as_the_chosen_speed_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def steps_by(speed: str) -> list[float]:
        found = list[float]()
        described = _two_jobs()
        for job in described["workload"]["jobs"]:
            job["rounds"] = 8
        described["policy"] = {"flow": {"speed": speed, "period_s": 10.0}}

        def gain(_: object, steps: float, __: int) -> float:
            found.append(steps)
            return 0.1

        monkeypatch.setattr("warren.policy.flow.maif.accuracy_gain", gain)
        compose.simulate(api._resolve(described, None))
        return found

    # Workers and servers are on one host or two: (19) has a round of 3.04 or 1.83 s.
    modelled = steps_by("mathematical")
    assert modelled
    assert all(
        min(abs(10.0 / one - step_s) for step_s in (3.042, 1.831)) < 1e-3 for one in modelled
    )
    assert steps_by("engineering") != modelled
    with pytest.raises(SpecError, match="speed must be one of engineering, mathematical"):
        policy_of("flow", "maif", {"speed": "fast"})


@pytest.mark.parametrize(("gain", "later_s"), [("expected", 18.8), ("published", 24.0)])
def test_of_fig_5b_the_job_that_gains_more_ends_its_early_stage_in_half_the_time(
    gain: str, later_s: float
) -> None:
    """Fair: both at 16; B first: B at 8, as in the paper but for the time until gains are known.

    A should end at 16, once B has learned. What B gains after that is expected to be more than
    it is: for a moment by ours, and until B ends by (22).
    """
    fair, first = _early_stages_s("fair", {}), _early_stages_s("maif", {"gain": gain})
    assert fair == pytest.approx([16.0, 16.0], rel=0.01)
    assert 8.0 < first[1] < 9.0
    assert first[0] == pytest.approx(later_s, rel=0.03)


def _early_stages_s(flow: str, options: dict[str, Any]) -> list[float]:
    """When A and B end their early stages: 80 rounds that take 0.1 s on free links, of 160.

    Each is a ring over both hosts, so that all it sends needs all links.
    """
    shown = {
        name: [[done, steepness * min(done, 80)] for done in range(1, 161)]
        for name, steepness in (("A", 0.004), ("B", 0.01))
    }
    common = {
        "sync": "ring",
        "scale": 2,
        "batch": 1,
        "rounds": 160,
        "evaluate": {"every": 1},
        "schedule": {"steps": []},
        "stop": {"metric": "accuracy", "reaches": 0.99},
    }
    host = {"name": "h", "count": 2, "devices": {"of-A": 1, "of-B": 1}, "nic": "800 Mbps"}
    run = {
        "format": 1,
        "name": "fig-5b",
        "cluster": {"hosts": [host], "network": {"model": "fluid"}},
        "workload": {"jobs": [{"name": name, "cost": name, **common} for name in shown]},
        "profiles": {
            name: {
                "model": "10 MB",
                "comp": {f"of-{name}": "1 us"},
                "sync": {f"of-{name}": "1 s"},
            }
            for name in shown
        },
        "scheduler": {"place": "fifo", "flow": flow},
        "policy": {"flow": {"period_s": 0.8, **options}} if flow == "maif" else {},
        "truth": {"metrics": shown},
    }
    rounds = compose.simulate(api._resolve(run, None)).history.rounds
    ends_s = {(one.job, one.round + one.rounds): one.barrier_ns / 1e9 for one in rounds}
    return [ends_s[job, 80] for job in range(2)]
