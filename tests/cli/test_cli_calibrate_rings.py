"""``warren calibrate --rings`` without a network: options, what is measured, the file, the picture.

Rounds here come from the forward model; ``tests/live/test_live_rings.py`` measures real ones.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from cli_runs import Warren
from hypothesis import given
from hypothesis import strategies as st

from warren.cli.rings.ring_plot import draw_rings
from warren.cost.ring import RingJobs, RingNetwork, contenders_J, round_s_J
from warren.cost.run_rings import ring_network
from warren.live.measure.ring_rounds import ProbedRing
from warren.model.errors import EngineError
from warren.profile.published import TABLE
from warren.runs.calibration.ring_network_file import RingCalibration, calibrated, network_yaml
from warren.runs.calibration.ring_rounds import MOST, RingRow, contenders, plan
from warren.store.files import read
from warren.workload.run_file import load_cluster

TRUTH = RingNetwork(inner_bytes_per_s=5e8, outer_bytes_per_s=23e6, xi1=0.9, xi2_s=0.002, alpha=0.0)
CLUSTER = "hosts: [{name: h, count: 4, devices: {GPU: 2}, nic: 25 Gbps}]\nnetwork: net.yaml\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "calibrate: --local: is missing; allowed: --local, or --rings --testbed NAME"),
        ("--rings", "calibrate: --rings: needs either --testbed NAME or --local; neither"),
        ("--rings --local --testbed x", "calibrate: --rings: needs either --testbed NAME or"),
        ("--rings --local --jobs r.yaml", "calibrate: --jobs: does not go with --rings"),
        ("--rings --local --pin", "calibrate: --pin: does not go with --rings"),
        ("--rings --local --plot fit.txt", "calibrate: --plot: 'fit.txt' is no picture; allowed"),
        ("--rings --local --out no/n.yaml", "no/n.yaml: cannot be written: no such folder"),
        ("--rings --testbed A", "testbed: --name: 'A' is not a name"),
        ("--local --quick", "calibrate: --quick: needs --rings"),
        ("--local --plot fit.svg", "calibrate: --plot: needs --rings"),
        ("--local --testbed lab", "calibrate: --testbed: needs --rings"),
    ],
)
def test_what_is_typed_wrongly_is_reported_in_one_line_before_anything_runs(
    warren: Warren, arguments: str, told: str
) -> None:
    found = warren("calibrate", *arguments.split())
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint


@pytest.mark.machine
def test_a_testbed_that_is_not_up_is_reported_with_the_way_to_make_it(
    warren: Warren, can_make_testbeds: None
) -> None:
    found = warren("calibrate", "--rings", "--testbed", "nowhere")
    assert found.code == 2
    assert "testbed: nowhere is not up; `warren testbed up --name nowhere`" in found.complaint


@pytest.mark.parametrize(
    ("hosts", "quick"), [(2, False), (3, True), (4, False), (4, True), (9, False)]
)
def test_the_plan_has_one_to_eight_rings_of_several_sizes_on_hosts_that_are_there(
    hosts: int, quick: bool
) -> None:
    runs = plan(hosts, 23.9e6, quick=quick)
    everywhere = [run for run in runs if len(run[0].hosts) > 1 and len(set(run)) == 1]
    counts = {len(run) for run in everywhere}
    assert counts >= ({1, 2, 4, 8} if quick else set(range(1, MOST + 1)))
    assert len({run[0].message_bytes for run in everywhere}) >= 2
    assert {host for run in runs for ring in run for host in ring.hosts} == set(
        range(min(hosts, 4))
    )
    assert any(ring.comp_s > 0 for run in runs for ring in run)
    assert any(len(set(ring.hosts)) == 1 for run in runs for ring in run)
    if hosts > 2:  # rings that meet on the link of one of their hosts alone
        assert any(len(set(one.hosts) & set(other.hosts)) == 1 for one, other, *_ in
                   (run for run in runs if len(run) > 1))  # fmt: skip


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=7))
def test_rings_on_the_busiest_link_are_the_p_of_equation_6(hosts_J: list[list[int]]) -> None:
    workers_JS = np.array([[one.count(host) for host in range(5)] for one in hosts_J])
    assert contenders(hosts_J) == contenders_J(workers_JS).tolist()


def rows_of(runs: list[list[ProbedRing]], truth: RingNetwork, noise: float) -> list[RingRow]:
    draw = np.random.default_rng(3)
    found = []
    for run in runs:
        jobs = RingJobs(
            model_bytes_J=np.array([float(one.message_bytes) for one in run]),
            workers_J=np.array([len(one.hosts) for one in run]),
            comp_s_J=np.array([one.comp_s for one in run]),
        )
        workers_JS = np.array([[one.hosts.count(host) for host in range(4)] for one in run])
        times = round_s_J(truth, jobs, workers_JS)
        first, p = run[0], contenders([one.hosts for one in run])[0]
        round_s = float(times[0] * np.exp(draw.normal(0, noise)))
        found.append(
            RingRow(
                rings=len(run),
                contenders=p,
                workers=len(first.hosts),
                hosts=len(set(first.hosts)),
                message_bytes=first.message_bytes,
                comp_s=first.comp_s,
                round_s=round_s,
                low_s=round_s,
                high_s=round_s,
            )
        )
    return found


@pytest.fixture
def found() -> RingCalibration:
    return calibrated(rows_of(plan(4, 23.9e6, quick=False), TRUTH, 0.02))


def test_the_file_that_a_cluster_names_gives_simulations_the_network_that_was_measured(
    found: RingCalibration, tmp_path: Path
) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "net.yaml").write_text(network_yaml(found, {"testbed": "none"}))
    network = ring_network(load_cluster(str(tmp_path / "c.yaml"), read))
    assert network.outer_bytes_per_s == pytest.approx(23e6, rel=0.03)  # not the nic's 25 Gbps
    assert network.inner_bytes_per_s == pytest.approx(5e8, rel=0.1)
    slope = network.xi1 * (1 + network.alpha)
    assert slope == pytest.approx(0.9, rel=0.05)
    assert network.xi2_s == pytest.approx(0.002, abs=0.0015)


def test_the_file_says_how_well_it_fits_what_was_measured(found: RingCalibration) -> None:
    told = yaml.safe_load(network_yaml(found, {}))
    assert list(told["fit"])[:2] == [told["reading"], *({"ours", "published"} - {told["reading"]})]
    assert 0.005 < told["fit"]["ours"]["left_out_error"]["mean"] < 0.04
    assert len(told["measured"]) == len(found.rows)
    errors = [row["error"] for row in told["measured"] if row["contenders"]]
    assert np.abs(errors).mean() == pytest.approx(told["fit"][told["reading"]]["error"]["mean"],
                                                  abs=1e-4)  # fmt: skip


def test_rounds_without_contention_are_refused_in_one_line() -> None:
    alone = [run for run in plan(4, 23.9e6, quick=True) if len(run) == 1]
    with pytest.raises(EngineError, match="rings: the rounds measured cannot be fitted: no"):
        calibrated(rows_of(alone, TRUTH, 0.0))


def test_the_picture_shows_each_point_twice_and_is_the_same_file_again(
    found: RingCalibration, tmp_path: Path
) -> None:
    for name in ("a.svg", "b.svg"):
        draw_rings(tmp_path / name, found)
    picture = (tmp_path / "a.svg").read_text()
    assert picture == (tmp_path / "b.svg").read_text()
    # A marker in the plot and one below for each point, besides ticks and the legend's.
    assert picture.count("<use ") > 2 * len(found.points.time_s_N)


def test_a_simulation_that_is_given_the_file_sends_at_the_measured_rate(
    warren: Warren, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(
        "cluster: {hosts: [{name: h, count: 2, devices: {V100: 1}}], network: net.yaml}\n"
        "workload: [{name: a, model: resnet50, batch: 32, sync: ring, scale: 2, rounds: 4}]\n"
        "scheduler: {place: fifo}\n"
    )
    took_s = []
    for mbit in (100, 50):
        (tmp_path / "net.yaml").write_text(f"model: contention\nouter: {mbit} Mbit\n")
        found = warren("simulate", tmp_path / "run.yaml", "--json")
        assert found.code == 0, found.err
        took_s.append(found.json["makespan_s"])
    # 2 m (w - 1) / w is m of two ranks, sent four times.
    more_s = 4 * 8 * TABLE["resnet50"].model_bytes * (1 / 50e6 - 1 / 100e6)
    assert took_s[1] - took_s[0] == pytest.approx(more_s, rel=0.01)
