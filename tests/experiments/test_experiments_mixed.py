"""Mixed sets that are drawn, errors of prediction in two parts, and plans without contention."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

import warren
from warren.cli.commands.inputs import run_of

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _replay
import _without_contention
import ring_mixed
import sjf_bco_figures
from _mixed_sets import drawn


def written(seed: int, folder: Path, comp: str = "") -> str:
    """The run of a seed; ``comp``: what tasks of rings compute, in place of the profile's."""
    path = folder / f"{seed}{comp}.yaml"
    run = drawn(seed)
    if comp:
        rows = yaml.safe_load(Path(run["profiles"]).read_text())
        rows |= {
            name: row | {"comp": {"CPU": comp}} for name, row in rows.items() if "wide" in name
        }
        run["profiles"] = {name: row for name, row in rows.items() if name != "format"}
    path.write_text(yaml.safe_dump(run))
    return str(path)


def test_a_seed_draws_one_set_and_every_fresh_one_is_a_run(tmp_path: Path) -> None:
    assert drawn(3) == drawn(3) != drawn(4)
    for seed in ring_mixed.SETS:
        found = warren.simulate(written(seed, tmp_path), place="fifo")
        assert [job.row["status"] for job in found.jobs.values()] == ["finished"] * 10
        # Ten sets, two policies: a run has to be over in a minute.
        assert found.summary["makespan_s"] < 75


@pytest.mark.parametrize("place", ["fifo", "braid"])
def test_with_the_decisions_of_a_run_the_simulator_gives_its_times(
    place: str, tmp_path: Path
) -> None:
    """Another simulation stands for the live run: its tasks take longer."""
    slower, path = written(101, tmp_path, "400 ms"), written(101, tmp_path)
    live, told = tmp_path / "live", tmp_path / "told"
    warren.simulate(slower, place=place, out=str(live))
    warren.simulate(path, place=place, out=str(told))
    exact = _replay.errors(run_of(slower, place, ()), live, live)
    assert exact == {"given_pct": 0, "given_bias_pct": 0, "moved_pct": 0, "otherwise": 0}
    off = _replay.errors(run_of(path, place, ()), live, told)
    assert off["given_pct"] > 1
    assert off["given_bias_pct"] < 0
    assert off["otherwise"] > 0
    assert off["moved_pct"] > 0


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_no_job_is_placed_before_it_arrives_where_devices_are_free_much_sooner(
    seed: int, tmp_path: Path
) -> None:
    slower, path = written(seed, tmp_path, "1500 ms"), written(seed, tmp_path)
    warren.simulate(slower, place="fifo", out=str(tmp_path / "live"))
    run = run_of(path, "fifo", ())
    ends_ns = _replay.replayed_ns_J(run, tmp_path / "live")
    jobs = zip(ends_ns, run.workload.jobs, strict=True)
    assert all(end_ns > job.arrival_ns for end_ns, job in jobs)


def test_starts_of_gangs_are_in_what_predicts_the_fresh_sets(tmp_path: Path) -> None:
    path = written(1, tmp_path)
    assert run_of(path, "fifo", ()).cluster.delays_gangs
    found = warren.simulate(path, place="fifo", out=str(tmp_path / "out"))
    assert found.summary["noise"]["overheads"] == 1
    assert found.summary["lower_bound"] is not None
    assert _common.warren("report", str(tmp_path / "out"), "--check").returncode == 0


def test_the_recorded_cost_of_sharing_links_is_the_one_made_now() -> None:
    recorded = _common.earlier("sjf_bco_figures")["contention"]["rows"]
    (row,) = [one for one in recorded if (one["cell"], one["place"]) == ("20", "braid")]
    sets = sjf_bco_figures._seeded(("cluster.hosts.servers=20",), 1)
    made = _without_contention.cell(str(sjf_bco_figures.RUN), "braid", 20, [sets])
    for key in ("by_seed_s", "without_by_seed_s", "jct_by_seed_s"):
        assert made[key] == row[key][:1]
    assert 0 <= made["sharing_pct"][0] < 0.5
