"""The apps of classical machine learning on real processes: plain's bits, on one server or two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warren
from warren.runs.api import Result
from warren.runs.results import load_record

pytestmark = pytest.mark.live

pytest.importorskip("sklearn", reason="scikit-learn (extra: examples) is not installed")

CHECKOUT = Path(__file__).resolve().parents[2]
JOBS = CHECKOUT / "experiments" / "spine" / "classical-jobs.yaml"


def train(
    folder: Path,
    *,
    engine: str,
    devices: int,
    servers: int,
    hosts: int = 1,
    joint: str = "",
    policy: dict[str, str] | None = None,
) -> Result:
    """Train the jobs of ``classical-jobs.yaml``, eight rounds of each."""
    jobs = JOBS.read_text().replace("../../examples", f"{CHECKOUT}/examples")
    jobs = re.sub(r"rounds: \d+", "rounds: 8", jobs).replace("every: 10", "every: 4")
    if policy == {"costs": "measured"}:
        jobs = re.sub(r"model: \w+, ", "", jobs)
    path = folder / f"{engine}-{servers}.yaml"
    path.write_text(jobs)
    host = {"name": "h", "count": hosts, "devices": {"V100": devices}, "nic": "25 Gbps"}
    scheduler = {"joint": joint} if joint else {"place": "srtf", "servers": servers}
    run = {
        "format": 1,
        "cluster": {"hosts": [host], "engine": engine, "emulate": {"time_scale": 0.001}},
        "workload": {"jobs": str(path)},
        "scheduler": scheduler,
        "policy": policy or {},
        "seed": 1,
    }
    return warren.run(run, out=folder / f"{engine}-{servers}")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """What the jobs compute, by definition."""
    return train(tmp_path_factory.mktemp("classical"), engine="plain", devices=1, servers=1)


@pytest.mark.parametrize("servers", [1, 2])
def test_they_have_the_bits_of_the_plain_loop(plain: Result, tmp_path: Path, servers: int) -> None:
    have_the_bits_of(plain, train(tmp_path, engine="local", devices=2, servers=servers))


@pytest.mark.parametrize("costs", ["stated", "measured"])
def test_jobs_that_share_hosts_in_groups_have_them_too(
    plain: Result, tmp_path: Path, costs: str
) -> None:
    """A group has the hosts of another when that ends: servers move while jobs train.

    With measured costs no task is timed ahead, and jobs are grouped again once they are known.
    """
    found = train(
        tmp_path, engine="local", devices=1, servers=1, hosts=3, joint="harmony",
        policy={"costs": costs},
    )  # fmt: skip
    have_the_bits_of(plain, found)
    assert found.folder is not None
    files = {path.name: path.read_bytes() for path in found.folder.iterdir() if path.is_file()}
    record = load_record("groups", files)
    assert (record.costs.comp_ns_JT.max() == 1) == (costs == "measured")
    told = record.history.groups_over_time()
    assert {job for _, groups in told for group in groups for job in group.jobs} == {0, 1, 2, 3}
    assert len({groups for _, groups in told}) > 1


def have_the_bits_of(plain: Result, found: Result) -> None:
    assert sorted(found.jobs) == ["lasso", "lda", "mlr", "nmf"]
    assert plain.folder is not None
    assert found.folder is not None
    for name, job in found.jobs.items():
        other = plain.job(name).row
        assert job.row["status"] == other["status"] == "finished"
        assert job.row["params_sha256"] == other["params_sha256"]
        assert job.row["final_loss"] == other["final_loss"]
        rows = [_numbers(one.folder / "metrics" / f"{name}.csv") for one in (plain, found)]
        assert rows[0] == rows[1]
        losses = [float(row[1]) for row in rows[0]]
        assert losses[-1] < losses[0]


def _numbers(path: Path) -> list[list[str]]:
    """Rounds, losses and metrics; the second column is the time, which is another in each run."""
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    return [[row[0], *row[2:]] for row in rows]
