"""Mixed sets that are drawn, errors of prediction in two parts, and plans without contention."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

import warren
from warren.runs.inputs import run_of

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import _common
import _replay
import _without_contention
import sjf_bco_figures
from _mixed_sets import FRESH, drawn


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
    for seed in FRESH:
        found = warren.simulate(written(seed, tmp_path), place="fifo")
        assert [job.row["status"] for job in found.jobs.values()] == ["finished"] * 10
        # Tens of sets, two policies: a run has to be over in a minute and a half.
        assert found.summary["makespan_s"] < 90


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


def test_no_job_is_placed_before_it_arrives_where_a_device_is_free_much_sooner(
    tmp_path: Path,
) -> None:
    def run_with(comp: str) -> str:
        path = tmp_path / f"{comp}.yaml"
        jobs = [{"name": "a", "model": "m", "rounds": 10}]
        jobs.append({"name": "b", "model": "m", "rounds": 10, "arrival": "5 s"})
        run = {
            "format": 1,
            "cluster": {"format": 1, "hosts": [{"name": "h", "devices": {"CPU": 1}}]},
            "workload": {"jobs": jobs},
            "profiles": {"m": {"model": "1 kB", "comp": {"CPU": comp}, "sync": {"CPU": "0 s"}}},
            "scheduler": {"place": "fifo"},
            "grain": "1000 rounds",
        }
        path.write_text(yaml.safe_dump(run))
        return str(path)

    warren.simulate(run_with("1 s"), out=str(tmp_path / "live"))
    found_ns = _replay.replayed_ns_J(run_of(run_with("100 ms"), "fifo", ()), tmp_path / "live")
    assert found_ns == [10**9, 6 * 10**9]


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
