"""MAIF in a simulation of links: it sees metrics and rounds, and classes change what is sent."""

from __future__ import annotations

from typing import Any

from warren.runs import api, compose


def test_maif_orders_jobs_by_what_a_simulation_shows_of_them() -> None:
    run = api._resolve(_two_jobs(), None)
    history = compose.simulate(run).history
    classes = {job: {kind for _, kind in history.classes_of(job)} for job in range(2)}
    # Both are in class 0 until their metric and their speed are known, then one after the other.
    assert classes[0] == {0, 1, 2} or classes[1] == {0, 1, 2}
    first = next(one for one in history.answers if one.decision.classes)
    assert first.time_ns >= 10_000_000_000


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
