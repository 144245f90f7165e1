"""Wrong options of generators and shapes: one line that names the field and what is allowed."""

from __future__ import annotations

from itertools import product

import pytest
from workload_files import FILES, reader

from warren.model.errors import SpecError
from warren.profile.published import TABLE
from warren.workload.run_file import load_cluster, load_run, run_from_dict


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        ("hare", "workload.generate: 'hare' is unknown; allowed: hare-mix, gavel-mix, sjf-bco"),
        ("hare-mix, laod: 2", "workload.laod: unknown field; did you mean load? allowed: batch_"),
        ("hare-mix", "workload.jobs: is required"),
        ("hare-mix, jobs: j.csv", "workload.jobs: expected a whole number, got 'j.csv'"),
        (
            "hare-mix, jobs: 9, shares: {cnn: 1}",
            "workload.shares.cnn: 'cnn' is unknown; allowed: cv, nlp, speech, rec",
        ),
        (
            "hare-mix, jobs: 9, shares: {cv: 0, nlp: 0, speech: 0, rec: 0}",
            "workload: all parts are 0; allowed: at least one above 0",
        ),
        ("hare-mix, jobs: 9, load: 0", "workload.load: must be more than 0.0, got 0"),
        ("hare-mix, jobs: 9, scales: []", "workload.scales: needs at least 1 item"),
        ("hare-mix, jobs: 9, searches: 101", "workload.searches: must be at most 100.0, got 101"),
        ("hare-mix, jobs: 9, load: 1e-6, rounds_factor: 1e6", "s is outside the range of times"),
        ("gavel-mix, jobs: 9", "workload.throughputs: is required"),
        (
            "gavel-mix, jobs: 9, throughputs: t.json",
            "d/t.json: cannot be read: No such file or directory (named in d/run.yaml:3)",
        ),
        (
            "gavel-mix, jobs: 9, throughputs: t, gap: 1 s, load: 1",
            "workload: needs at most one of: load, gap",
        ),
    ],
)
def test_a_wrong_generator_says_where_and_what_is_allowed(workload: str, line: str) -> None:
    run = FILES["d/run.yaml"].replace("{jobs: jobs.csv}", f"{{generate: {workload}}}")
    with pytest.raises(SpecError) as error:
        load_run("d/run.yaml", reader({**FILES, "d/run.yaml": run}), rows=TABLE)
    assert line in str(error.value)


OPTIONS = ("jobs", "load", "seed", "shares", "scales", "rounds_factor", "batch_factor", "gap")
VALUES = (
    None, True, -1, 0, 1, 2.5, 10**18, 10**40, 1e308, "", "nan", "1 s", [], [0], [3, 4096], {},
    {"cv": 1e6}, {"": 1}, {"rec": -1}, {"cv": None}, "x" * 300,
)  # fmt: skip


def test_any_value_of_any_option_is_taken_or_refused_in_one_line_each() -> None:
    taken, refused = 0, []
    for option, value in product(OPTIONS, VALUES):
        workload = {"generate": "hare-mix", "jobs": 3, option: value}
        data = {"cluster": {"hosts": {"generate": "hare", "devices": 8}}, "workload": workload}
        try:
            taken += len(run_from_dict(data, "d", reader({}), rows=TABLE).workload.jobs) in (1, 3)
        except SpecError as error:
            refused += str(error).split("\n")
    assert taken >= 10
    assert len(refused) >= 100
    assert not [line for line in refused if not line.startswith("run: workload")]


@pytest.mark.parametrize(
    ("hosts", "line"),
    [
        ("7", "hosts: expected a list of hosts, local or {generate: hare, devices: N}, got 7"),
        ("{generate: x, devices: 4}", "hosts.generate: 'x' is unknown; allowed: hare, sjf-bco"),
        ("{generate: hare}", "hosts.devices: is required"),
        (
            "{generate: hare, devices: 4, heterogeneity: hihg}",
            "hosts.heterogeneity: 'hihg' is unknown; allowed: low, mid, high",
        ),
        ("{generate: hare, devices: 4, gpus: 3}", "hosts.gpus: unknown field; allowed: devices"),
        ("{generate: hare, devices: 4, mix: {V100: 0}}", "mix needs at least one type above 0"),
    ],
)
def test_a_wrong_shape_of_hosts_says_what_is_allowed(hosts: str, line: str) -> None:
    files = reader({"c.yaml": f"hosts: {hosts}"})
    with pytest.raises(SpecError) as error:
        load_cluster("c.yaml", files)
    assert line in str(error.value)
