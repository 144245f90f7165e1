"""The closed forms of switching against the figures of Hare's Table 3."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from warren.cost.switching import SCHEMES, switch_s, with_switching
from warren.model.cluster import Cluster, Device, DeviceType, Host
from warren.model.costs import CostTable
from warren.model.errors import SpecError
from warren.model.job import Job, Workload
from warren.model.measured import PCIE3_X16_BYTES_PER_S, Switching
from warren.model.measured import SCHEMES as NAMES
from warren.model.run import Run
from warren.profile.published import TABLE

MEASURED = Path(__file__).parents[2] / "experiments" / "results" / "gpu_switch.json"
TABLE_3_MS = {
    "default": (3288.94, 5961.16, 7807.43, 9016.99, 5257.17, 5125.64, 5327.24, 5213.54),
    "pipeswitch": (4.01, 4.75, 5.03, 12.57, 10.34, 8.91, 2.86, 2.42),
    "hare": (2.77, 2.04, 2.46, 5.03, 5.79, 4.27, 1.83, 0.96),
}
"""Of VGG19, ResNet50, Inception V3, Bert_base, Transformer, DeepSpeech, FastGCN, GraphSAGE."""
MODELS = (
    "vgg19", "resnet50", "inception-v3", "bert-base", "transformer", "deepspeech", "fastgcn",
    "graphsage",
)  # fmt: skip
BYTES = np.array([TABLE[name].model_bytes for name in MODELS])
TRANSFER_MS = 1e3 * BYTES / PCIE3_X16_BYTES_PER_S


def form_ms(scheme: str) -> np.ndarray:
    return np.array([1e3 * switch_s(scheme, int(b), PCIE3_X16_BYTES_PER_S) for b in BYTES])


@pytest.mark.parametrize("scheme", ["pipeswitch", "hare"])
def test_the_constants_are_the_least_squares_fit_to_table_3(scheme: str) -> None:
    design = np.column_stack((np.ones(8), TRANSFER_MS))
    (fixed_ms, exposed), *_ = np.linalg.lstsq(design, np.array(TABLE_3_MS[scheme]), rcond=None)
    assert SCHEMES[scheme].fixed_s == pytest.approx(fixed_ms / 1e3, rel=0.005)
    assert SCHEMES[scheme].exposed == pytest.approx(exposed, rel=0.005)


def test_our_schemes_are_what_was_measured_on_a_gpu() -> None:
    found = json.loads(MEASURED.read_text())["rows"].values()
    copies_s = np.array([row["plain_s"] for row in found])
    copied_s = np.array(
        [min(row[way]["median_s"] for way in ("pipelined", "whole")) for row in found]
    )
    design = np.column_stack((np.ones(len(copies_s)), copies_s))
    (fixed_s, exposed), *_ = np.linalg.lstsq(design, copied_s, rcond=None)
    assert SCHEMES["copied"].fixed_s == pytest.approx(fixed_s, rel=0.01)
    assert SCHEMES["copied"].exposed == pytest.approx(exposed, rel=0.005)
    most_s = max(row["resident"]["median_s"] for row in found)
    assert SCHEMES["staged"].fixed_s == pytest.approx(most_s, rel=0.01)


def test_the_default_scheme_hides_nothing_and_has_table_3s_mean() -> None:
    assert SCHEMES["default"].exposed == 1
    left_ms = np.mean(TABLE_3_MS["default"]) - TRANSFER_MS.mean()
    assert SCHEMES["default"].fixed_s == pytest.approx(left_ms / 1e3, rel=0.001)


@pytest.mark.parametrize(
    ("scheme", "low", "high"),
    [("default", 0.65, 1.8), ("pipeswitch", 0.8, 1.2), ("hare", 0.74, 1.8)],
)
def test_each_form_is_as_far_from_table_3_as_its_text_says(
    scheme: str, low: float, high: float
) -> None:
    ratio = form_ms(scheme) / np.array(TABLE_3_MS[scheme])
    assert ratio.mean() == pytest.approx(1, abs=0.11)
    assert low < ratio.min() < ratio.max() < high


def test_a_better_scheme_a_smaller_model_and_a_faster_bus_switch_sooner() -> None:
    assert tuple(SCHEMES) == NAMES
    for scheme in NAMES:
        # Of what is there already no size and no bus counts.
        if scheme != "staged":
            assert switch_s(scheme, 10**8, 1e9) > switch_s(scheme, 10**7, 1e9)
            assert switch_s(scheme, 10**8, 1e9) > switch_s(scheme, 10**8, 1e10)
        assert switch_s(scheme, 0, 1e9) == SCHEMES[scheme].fixed_s
    assert (form_ms("default") > form_ms("pipeswitch")).all()
    assert (form_ms("pipeswitch") > form_ms("hare")).all()


def world(switching: Switching | None, rounds: int = 1) -> tuple[Run, CostTable]:
    """Two jobs of 0 and 157.5 MB on devices A and B; the first does not fit B."""
    kinds = ("A", "B")
    devices = tuple(Device(index=i, name=k, type=k, host="h") for i, k in enumerate(kinds))
    cluster = Cluster(
        hosts=(Host(name="h", devices=kinds),),
        devices=devices,
        types=tuple(DeviceType(name=kind) for kind in kinds),
        switching=switching,
    )
    jobs = tuple(Job(index=i, name=f"j{i}", scale=1, rounds=rounds) for i in range(2))
    comp = np.array([[10, 2**62], [10, 10]])
    costs = CostTable(
        comp_ns_JT=comp,
        sync_ns_JT=comp.copy(),
        fits_JT=comp < 2**62,
        model_bytes_J=np.array([0, 157_500_000]),
    )
    return Run(name="r", cluster=cluster, workload=Workload(jobs=jobs)), costs


def test_a_cluster_that_charges_nothing_has_no_times_of_switches() -> None:
    run, costs = world(None)
    assert with_switching(run, costs) is costs
    assert costs.switch_ns_JT is None


def test_a_switch_costs_by_the_job_that_comes_or_by_the_device_type() -> None:
    found = with_switching(*world(Switching(scheme="hare"))).switch_ns_JT
    assert found is not None
    assert found.tolist() == [[1_700_000] * 2, [1_700_000 + 1_590_000] * 2]
    slow = with_switching(*world(Switching(scheme="hare", bus_bytes_per_s=1.575e9))).switch_ns_JT
    assert slow is not None
    assert slow.tolist() == [[1_700_000] * 2, [1_700_000 + 15_900_000] * 2]
    stated = with_switching(*world(Switching(time_ns={"B": 7, "A": 5}))).switch_ns_JT
    assert stated is not None
    assert stated.tolist() == [[5, 7]] * 2
    run, costs = world(Switching(scheme="hare"))
    nothing_known = with_switching(run, replace(costs, model_bytes_J=None)).switch_ns_JT
    assert nothing_known is not None
    assert nothing_known.tolist() == [[1_700_000] * 2] * 2


@pytest.mark.parametrize(
    "switching",
    [Switching(scheme="hare", bus_bytes_per_s=1e-300), Switching(time_ns={"A": 2**61, "B": 0})],
)
def test_switches_that_would_outlast_the_clock_are_refused(switching: Switching) -> None:
    with pytest.raises(SpecError, match=r"cluster\.switching: .* more than 146 years"):
        with_switching(*world(switching, rounds=2))
