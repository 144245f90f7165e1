"""A resolved run is one file that reads back equal: times, rates, seeds, costs, remarks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_files import reader

from warren.model.measured import SCHEMES
from warren.model.run import Run
from warren.model.units import NEVER_NS
from warren.workload.run_file import load_run, run_from_dict
from warren.workload.specs.write import dump_run

NAMES = st.text("ABCxyz019._-", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))
PRINTABLE = st.characters(exclude_categories=["C", "Z"], include_characters=" ")
LINES = st.text(PRINTABLE, min_size=1, max_size=20)
SECONDS = st.floats(1e-9, 1e6)
RATES = st.floats(1.0, 1e13)
SIZES = st.integers(0, 10**15)
SEEDS = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
FREE = st.dictionaries(TEXT, VALUES, max_size=3)


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


DISKS = RATES.map(lambda rate: f"{rate!r} B/s")
HOSTS = st.fixed_dictionaries(
    {
        "count": some(st.integers(1, 3)),
        "devices": st.dictionaries(NAMES, st.integers(1, 3), min_size=1, max_size=3),
    },
    optional={"memory": SIZES, "nic": RATES, "intra": RATES, "disk": DISKS},
)
NETWORKS = (
    st.sampled_from([{"model": "constant"}, {"model": "lane"}])
    | st.fixed_dictionaries(
        {"model": st.just("contention")},
        optional={
            "xi1": st.floats(0, 1), "xi2": st.floats(0, 1e6), "alpha": st.floats(0, 100),
            "reading": st.sampled_from(["ours", "published"]), "outer": RATES, "inner": RATES,
        },
    )
    | st.fixed_dictionaries(
        {"model": st.just("fluid")},
        optional={"xi2": st.floats(0, 1e6), "outer": RATES, "inner": RATES},
    )
)  # fmt: skip
STOPS = st.builds(
    lambda metric, key, value: {"metric": metric, key: value},
    LINES,
    st.sampled_from(["reaches", "falls_to"]),
    st.floats(-1e6, 1e6),
)
SCHEDULES = st.fixed_dictionaries(
    {"steps": st.lists(st.integers(1, 10**12), max_size=4, unique=True).map(sorted)}
)
WORKERS = st.fixed_dictionaries({"hosts": st.lists(LINES, min_size=1, max_size=3, unique=True)})
JOBS = st.fixed_dictionaries(
    {"app": LINES, "evaluate": st.fixed_dictionaries({"every": st.integers(1, 10**12)})},
    optional={
        "model": LINES, "cost": LINES, "stop": STOPS, "params": FREE, "user": LINES, "group": LINES,
        "scale": st.integers(1, 10**6), "rounds": st.integers(1, 10**12),
        "batch": st.integers(1, 10**9), "weight": st.floats(1e-9, 1e12), "seed": SEEDS,
        "arrival": st.integers(0, NEVER_NS - 1).map(lambda ns: f"{ns} ns") | SECONDS,
        "checkpoint": st.fixed_dictionaries({"every": st.integers(1, 10**12)}),
        "nan_loss": st.sampled_from(["fail", "train"]),
        "numerics": st.sampled_from(["strict", "mixed"]), "sync": st.sampled_from(["ps", "ring"]),
        "task_limit": st.integers(1, NEVER_NS - 1).map(lambda ns: f"{ns} ns") | SECONDS,
        "class": st.integers(1, 7), "workers": WORKERS, "schedule": SCHEDULES,
        "types": st.lists(LINES, min_size=1, max_size=3, unique=True),
    },
)  # fmt: skip
PROFILES = st.dictionaries(
    LINES,
    st.fixed_dictionaries(
        {"model": SIZES, "comp": st.dictionaries(LINES, SECONDS, max_size=3)},
        optional={
            "memory": SIZES,
            "batch": st.integers(0, 10**9),
            "source": st.dictionaries(LINES, TEXT),
            "sync": st.dictionaries(LINES, SECONDS, max_size=3),
            "overhead": st.dictionaries(LINES, SECONDS, max_size=3),
            "build": st.dictionaries(LINES, SECONDS, max_size=3),
            "step": SECONDS,
        },
    ),
    max_size=3,
)  # fmt: skip
SHORT = st.integers(0, 3600 * 10**9).map(lambda ns: f"{ns} ns")
OVERHEADS = st.fixed_dictionaries(
    {
        "constants": st.fixed_dictionaries(
            {"cores": st.integers(1, 10_000)},
            optional={
                "dispatch": SHORT, "task_cpu": SHORT, "round_cpu": SHORT, "barrier": SHORT,
                "task_cpu_rate": DISKS, "round_cpu_rate": DISKS, "slowdown": st.floats(1, 100),
                "ring_start": SHORT, "ring_rank": SHORT, "ring_move": SHORT,
            },
        )
    },
    optional={"machine": FREE},
)  # fmt: skip
CVS = st.floats(0, 10)


SPILLED = [{}, {"spill": True, "disk_ratio": 0.25, "model_on_disk": True}]


def switchings(types: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    scheme = {"scheme": st.sampled_from(SCHEMES)}
    return (
        st.fixed_dictionaries(scheme, optional={"bus": DISKS})
        | st.fixed_dictionaries({"time": SHORT})
        | st.fixed_dictionaries({"times": st.fixed_dictionaries(dict.fromkeys(types, SHORT))})
    )


TRUTHS = st.fixed_dictionaries(
    {"task_cv": CVS, "job_cv": CVS, "seed": SEEDS},
    optional={"losses": some(st.fixed_dictionaries({"noise": st.floats(0, 1)}))},
)
GRAINS = st.sampled_from([1, "1", "3 rounds", "60 s", "1.5 h", "7 ns"])


def emulations(types: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    slower = st.dictionaries(st.sampled_from(types), st.floats(1, 1000), max_size=2)
    return st.fixed_dictionaries(
        {"time_scale": st.floats(1e-6, 1e6)}, optional={"jitter": LINES, "slower": slower}
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    drawn = draw(st.lists(HOSTS, min_size=1, max_size=3))
    hosts = [{**host, "name": f"h{index}"} for index, host in enumerate(drawn)]
    types = list(dict.fromkeys(kind for host in hosts for kind in host["devices"]))
    described = draw(st.sampled_from([[], types, types[::-1]]))
    cluster = {
        "hosts": hosts,
        "device_types": {kind: {"memory": draw(some(SIZES))} for kind in described},
        "network": draw(NETWORKS),
        "engine": draw(st.sampled_from(["plain", "local"])),
        "emulate": draw(some(emulations(types))),
        "overheads": draw(some(OVERHEADS)),
        "local": {
            "look_ahead": draw(st.integers(0, 64)),
            "pin": draw(st.booleans()),
            "memory": draw(some(st.integers(64 * 10**6, 10**15))),
            **draw(st.sampled_from(SPILLED)),
        },
    }
    if cluster["overheads"] is None:
        cluster["switching"] = draw(some(switchings(types)))
    jobs = draw(st.dictionaries(NAMES, JOBS, min_size=1, max_size=4))
    data = {
        "name": draw(some(TEXT.filter(bool))),
        "seed": draw(SEEDS),
        "grain": draw(GRAINS),
        "scheduler": {
            "servers": draw(st.integers(1, 64)),
            **draw(st.sampled_from([{}, {"copies_after": 2.5}])),
        },
        "policy": draw(FREE),
        "truth": draw(TRUTHS),
        "profiles": draw(PROFILES),
        "cluster": cluster,
        "workload": {
            "jobs": [{**job, "name": name} for name, job in jobs.items()],
            "notes": draw(st.lists(TEXT, max_size=2)),
        },
    }
    return run_from_dict(data, draw(TEXT), reader({}))


@given(runs())
def test_load_of_dump_is_the_run_itself_from_any_folder(run: Run) -> None:
    text = dump_run(run)
    assert load_run("elsewhere/run.yaml", reader({"elsewhere/run.yaml": text})) == run


@given(runs())
def test_dump_is_a_fixed_point(run: Run) -> None:
    text = dump_run(run)
    assert dump_run(load_run("x.yaml", reader({"x.yaml": text}))) == text


@pytest.mark.parametrize("char", ["\x7f", "\u2028", "\u00a0", "\U0001f600", "\x85", "\ufeff", "\0"])
def test_characters_that_yaml_treats_on_their_own_survive(char: str) -> None:
    job = {"name": "j", "app": "x", "params": {f"k{char}": f"a{char}b\\u{char}"}}
    data = {"cluster": {"hosts": [{"name": "a", "devices": {"T4": 1}}]}, "workload": [job]}
    run = run_from_dict(data, "", reader({}))
    assert load_run("x.yaml", reader({"x.yaml": dump_run(run)})) == run
