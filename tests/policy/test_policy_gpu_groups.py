"""GPU groups as a policy asks for them, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest

from warren.model.costs import CostTable
from warren.model.units import NEVER_NS
from warren.policy.place.hlas.gpu_groups import gpu_groups, grouping_text, members, usual_groups

TYPE_D = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2])


def costs(*, fits_last: bool = True) -> CostTable:
    """Two jobs; a device of type 1 is as fast as two of type 0, one of type 2 as four."""
    comp_ns_JT = np.array([[400, 200, 100], [36, 16, 6]], dtype=np.int64)
    sync_ns_JT = np.array([[0, 0, 0], [4, 4, 4]], dtype=np.int64)
    fits_JT = np.ones((2, 3), np.bool_)
    if not fits_last:
        fits_JT[1, 2] = False
        comp_ns_JT[~fits_JT] = sync_ns_JT[~fits_JT] = NEVER_NS
    return CostTable(comp_ns_JT=comp_ns_JT, sync_ns_JT=sync_ns_JT, fits_JT=fits_JT)


def test_groups_are_equally_fast_where_they_can_be() -> None:
    found = gpu_groups(costs(), TYPE_D, 4)
    assert found.spread == pytest.approx(0.0, abs=1e-12)
    assert found.gap == 0.0
    parts = [one.tolist() for one in members(found)]
    assert sorted(one for part in parts for one in part) == list(range(9))
    assert [8] in parts


def test_a_device_that_one_job_cannot_use_makes_groups_differ() -> None:
    equal = gpu_groups(costs(), TYPE_D, 4)
    found = gpu_groups(costs(fits_last=False), TYPE_D, 4)
    assert found.spread > equal.spread + 0.1
    assert found.bound > 0


def test_the_text_names_groups_their_types_the_value_and_the_bound() -> None:
    text = grouping_text(gpu_groups(costs(), TYPE_D, 4), ("K80", "T4", "V100"))
    assert text.startswith("9 GPUs in 4 groups:\n")
    assert "1 V100" in text
    assert "at most 0.00% of its mean (eq. 4)" in text
    assert text.endswith("No grouping has less.")


def test_the_text_says_so_when_a_better_grouping_is_not_ruled_out() -> None:
    random = np.random.default_rng(4)
    comp_ns_JT = random.integers(10**6, 10**8, (6, 5))
    table = CostTable(
        comp_ns_JT=comp_ns_JT,
        sync_ns_JT=np.zeros_like(comp_ns_JT),
        fits_JT=np.ones(comp_ns_JT.shape, np.bool_),
    )
    found = gpu_groups(table, np.sort(random.integers(0, 5, 53)), 13, moves=1, programs=0)
    assert found.bound < found.spread
    assert f"No grouping has less than {found.bound:.2%}." in grouping_text(found, "ABCDE")


@pytest.mark.parametrize("groups", [0, 10])
def test_a_number_of_groups_that_cannot_be_is_refused(groups: int) -> None:
    with pytest.raises(ValueError, match=f"{groups} groups of 9 GPUs; allowed: 1 to all"):
        gpu_groups(costs(), TYPE_D, groups)


@pytest.mark.parametrize(("devices", "groups"), [(160, 40), (15, 4), (4, 1), (1, 1)])
def test_usual_groups_have_about_four_devices(devices: int, groups: int) -> None:
    assert usual_groups(devices) == groups
