"""Constants of the live engine: what made the figures comes out again, and the file reads back."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from warren.profile.overheads import Constant, Repeat, Sizes, constants, overheads_yaml
from warren.workload.run_file import load_cluster

SIZES = Sizes(small_bytes=1_000, large_bytes=4_001_000, scale=4, ranks=4, wide_ranks=12, cores=2)
START_NS, RANK_NS, MOVE_NS = 60e6, 90e6, 40e6
TASK_NS, ROUND_NS = 400_000.0, 300_000.0
TASK_A_BYTE_NS, ROUND_A_BYTE_NS, CARRIED_A_BYTE_NS, STEP_A_BYTE_NS = 0.5, 1.25, 0.4, 0.1
SMALL, LARGE = SIZES.small_bytes, SIZES.large_bytes


def own_ns(model_bytes: int, scale: int) -> float:
    task_ns = TASK_NS + TASK_A_BYTE_NS * (model_bytes - SMALL)
    return task_ns + (ROUND_NS + ROUND_A_BYTE_NS * (model_bytes - SMALL)) / scale


MADE = Repeat(
    dispatch_ns=120_000,
    task_alone_ns=1_400_000,
    task_busy_ns=1_100_000,
    barrier_ns=900_000,
    barrier_large_ns=900_000 + (LARGE - SMALL) * (2 * CARRIED_A_BYTE_NS + STEP_A_BYTE_NS),
    barrier_decided_ns=1_500_000,
    own_ns=own_ns(SMALL, 1),
    own_scaled_ns=own_ns(SMALL, 4),
    own_large_ns=own_ns(LARGE, 1),
    own_large_scaled_ns=own_ns(LARGE, 4),
    compute_alone_ns=5_000_000,
    compute_busy_ns=6_000_000,
    step_bytes_per_s=1e9 / STEP_A_BYTE_NS,
    gang_ns=START_NS + 4 / 2 * RANK_NS,
    wide_gang_ns=START_NS + 3 * 4 / 2 * RANK_NS,
    moved_ns=START_NS + 4 / 2 * RANK_NS + MOVE_NS,
)


def value(found: dict[str, Constant], name: str) -> float:
    known = found[name].value
    assert known is not None
    return known


def test_figures_made_from_constants_give_them_back() -> None:
    found = dict(constants([MADE], SIZES))
    assert value(found, "task_cpu") == pytest.approx(TASK_NS)
    assert value(found, "round_cpu") == pytest.approx(ROUND_NS)
    assert value(found, "task_cpu_rate") == pytest.approx(1e9 / TASK_A_BYTE_NS)
    assert value(found, "round_cpu_rate") == pytest.approx(1e9 / ROUND_A_BYTE_NS)
    assert value(found, "transport") == pytest.approx(1e9 / CARRIED_A_BYTE_NS)
    assert value(found, "step") == pytest.approx(1e9 / STEP_A_BYTE_NS)
    assert value(found, "slowdown") == pytest.approx(1.2)
    assert (value(found, "dispatch"), value(found, "barrier")) == (120_000, 900_000)
    assert value(found, "ring_start") == pytest.approx(START_NS)
    assert value(found, "ring_rank") == pytest.approx(RANK_NS)
    assert value(found, "ring_move") == pytest.approx(MOVE_NS)


def test_of_rings_on_more_cores_than_ranks_only_what_a_start_takes_can_be_reported() -> None:
    many_cores = replace(SIZES, cores=64)
    found = dict(constants([replace(MADE, gang_ns=3e8, wide_gang_ns=3.1e8)], many_cores))
    assert (value(found, "ring_start"), value(found, "ring_rank")) == (3e8, 0)


def test_a_constant_is_the_median_and_its_range_the_extremes_of_the_repeats() -> None:
    repeats = [replace(MADE, dispatch_ns=at, step_bytes_per_s=at) for at in (3e5, 1e5, 9e5)]
    found = constants(repeats, SIZES)
    assert found["dispatch"] == Constant(3e5, 1e5, 9e5)
    assert found["step"] == Constant(pytest.approx(3e5), pytest.approx(1e5), pytest.approx(9e5))


def test_noise_never_makes_a_time_negative_or_a_slowdown_a_gain() -> None:
    odd = replace(MADE, own_scaled_ns=2 * MADE.own_ns, compute_busy_ns=1.0)
    found = dict(constants([odd], SIZES))
    assert value(found, "round_cpu") == 0
    assert value(found, "task_cpu") == MADE.own_ns
    assert value(found, "slowdown") == 1
    moved = replace(MADE, gang_ns=2e8, wide_gang_ns=1e8, moved_ns=1e8)
    found = dict(constants([moved], SIZES))
    assert [value(found, f"ring_{what}") for what in ("start", "rank", "move")] == [2e8, 0, 0]
    found = dict(constants([replace(moved, wide_gang_ns=9e9)], SIZES))
    assert [value(found, f"ring_{what}") for what in ("start", "rank")] == [0, 1e8]
    other = replace(MADE, own_scaled_ns=0.0)
    assert value(dict(constants([other], SIZES)), "task_cpu") == 0


def test_a_rate_that_cannot_be_distinguished_from_infinite_is_left_out_of_the_file() -> None:
    found = constants([replace(MADE, barrier_large_ns=MADE.barrier_ns)], SIZES)
    assert found["transport"].value is None
    text = overheads_yaml(found, 2, {})
    assert all("transport" not in part for part in yaml.safe_load(text).values() if part != 1)


def test_the_file_is_one_that_a_cluster_can_name() -> None:
    found = constants([MADE, replace(MADE, dispatch_ns=130_000)], SIZES)
    text = overheads_yaml(found, 2, {"processor": "some: one", "busy_before": 0.25})
    files = {"c.yaml": "hosts: [{name: a, devices: {B: 1}}]\noverheads: m.yaml", "m.yaml": text}
    known = load_cluster("c.yaml", lambda path: files[path].encode()).overheads
    assert known is not None
    assert (known.cores, known.dispatch_ns, known.slowdown) == (2, 125_000, 1.2)
    assert (known.ring_start_ns, known.ring_rank_ns, known.ring_move_ns) == (6e7, 9e7, 4e7)
    assert known.task_cpu_ns == pytest.approx(TASK_NS, rel=1e-3)
    assert known.task_cpu_bytes_per_s == pytest.approx(2e9, rel=1e-3)
    told = yaml.safe_load(text)
    assert told["machine"] == {"processor": "some: one", "busy_before": 0.25}
    assert told["ranges"]["dispatch"] == ["120 us", "130 us"]
    assert told["constants"].keys() - {"cores"} == told["how"].keys() == told["ranges"].keys()
