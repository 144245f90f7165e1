"""One job on mixed GPU types: parameters, rings and stages, by hand; the measured points."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _sailor
from _sailor import Point, fitted_faster, point_of, predict_s, rank_parameters

ALL = range(26)
TYPES = ("RTX-3090", "Titan-RTX")
RATE = _sailor.RATES[frozenset(TYPES)]
LAYER = {"RTX-3090": [0.1, 0.2, 0.01], "Titan-RTX": [0.2, 0.3, 0.02]}
PROFILES = {
    name: {"2": {"4": {str(layer): times for layer in ALL}}} for name, times in LAYER.items()
}
PURE = Point(
    name="N2_D2", layers_S=((1, 2),), types_S=(TYPES,), ranks=4, microbatch=2, batch=12,
    measured_s=1.0, reduce_s=0.0,
)  # fmt: skip
STAGES = replace(PURE, layers_S=((1, 2), (3,)), types_S=(TYPES[:1], TYPES[1:]))


def test_parameters_of_a_rank_are_those_that_sailors_profile_lists() -> None:
    assert rank_parameters(ALL, 1, tied=False) == 53_608_448 + 24 * 12_596_224 + 51_513_344
    assert rank_parameters(ALL, 8, tied=False) == 8_650_752 + 24 * 1_579_904 + 6_555_648
    table = 50_304 * 1024
    assert rank_parameters(ALL, 1) == rank_parameters(ALL, 1, tied=False) - table
    assert rank_parameters(range(12), 8) == rank_parameters(range(12), 8, tied=False)


def test_the_slowest_node_computes_and_then_all_ranks_share_its_card() -> None:
    assert PURE.microbatches == 3
    computed = 3 * 2 * (0.2 + 0.3) + 2 * 0.02
    sent = 4 * 4 * rank_parameters((1, 2), 4)  # four ranks, four bytes, 2 (2 - 1) / 2 times
    assert predict_s(PURE, PROFILES) == pytest.approx(computed + sent / RATE)
    assert predict_s(PURE, PROFILES, faster=2) == pytest.approx(computed + sent / RATE / 2)


def test_a_ring_of_one_node_sends_nothing() -> None:
    alone = replace(PURE, types_S=(TYPES[:1],), batch=4)
    assert predict_s(alone, PROFILES) == pytest.approx(2 * 2 * 0.3 + 2 * 0.01)


def test_a_transfer_holds_both_stages() -> None:
    send = 2 * 2048 * 1024 * 4 / RATE
    first, second = 2 * 0.3, 0.5
    turn = max(first, second) + send
    expected = 5 * turn + first + second + 2 * send + 2 * 0.01
    assert STAGES.microbatches == 6
    assert predict_s(STAGES, PROFILES) == pytest.approx(expected)


def test_the_factor_on_rates_is_found_again() -> None:
    some = [replace(one, batch=batch) for one in (PURE, STAGES) for batch in (4, 40)]
    points = [replace(one, measured_s=predict_s(one, PROFILES, faster=2)) for one in some]
    assert fitted_faster(points, PROFILES) == pytest.approx(2)


def test_a_point_is_read_from_a_plan() -> None:
    stages = [[[[["RTX-3090", 8, "zone"]], 8], [[["RTX-2080", 8, "zone"]], 8]]]
    plan = {"layers_per_stage": [[0, 1]], "tmp_per_stage": stages, "dp": [2]}
    value = {"pipeline_list": [plan], "mbs": 2, "gbs": 256, "real": 9.5, "red_grads": 1.5}
    assert point_of("N2_D2", value) == Point(
        name="N2_D2", layers_S=((0, 1),), types_S=(("RTX-3090", "RTX-2080"),), ranks=8,
        microbatch=2, batch=256, measured_s=9.5, reduce_s=1.5,
    )  # fmt: skip


def test_measured_points_are_predicted_within_ten_percent_in_the_mean(data_dir: Path) -> None:
    folder = data_dir / "profiles" / "sailor"
    points, profiles = _sailor.read_points(folder), _sailor.read_profiles(folder)
    assert len(points) == 8
    errors = {one.name: abs(predict_s(one, profiles) / one.measured_s - 1) for one in points}
    pure = [errors[name] for name in ("N2_D2", "N4_D4", "N6_D6")]
    assert sum(pure) / 3 < 0.06
    assert sum(errors.values()) / 8 < 0.1
