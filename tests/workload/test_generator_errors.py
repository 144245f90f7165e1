"""Wrong options of generators and shapes: one line that names the field and what is allowed."""

from __future__ import annotations

import pytest
from workload_files import FILES, reader

from warren.model.errors import SpecError
from warren.profile.table import TABLE
from warren.workload.load import load_cluster, load_run


@pytest.mark.parametrize(
    ("workload", "line"),
    [
        ("hare", "workload.generate: 'hare' is unknown; allowed: hare-mix, gavel-mix"),
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


@pytest.mark.parametrize(
    ("hosts", "line"),
    [
        ("7", "hosts: expected a list of hosts or {generate: hare, devices: N}, got 7"),
        ("{generate: x, devices: 4}", "hosts.generate: 'x' is unknown; allowed: hare"),
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
