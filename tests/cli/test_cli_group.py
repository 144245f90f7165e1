"""``warren group``: groups of small runs by hand, what limits each, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_runs import CHECKOUT, Told, Warren

RUN = """\
format: 1
name: r
cluster:
  hosts: [{{name: h, count: 2, devices: {{C: 1}}, nic: 8 Mbps}}]
  network: {{model: {network}}}
workload:
  - {{name: a, model: a, scale: 2, rounds: 20, batch: 1}}
  - {{name: b, model: b, scale: 2, rounds: 20, batch: 1, arrival: {arrival}}}
profiles:
  a: {{model: {a[0]}, comp: {{C: {a[1]}}}, sync: {{C: 7 s}}}}
  b: {{model: {b[0]}, comp: {{C: {b[1]}}}, sync: {{C: 5 s}}}}
scheduler: {scheduler}
"""
TOGETHER = """\
{place: srtf, shape: all, group: fixed}
policy: {group: {groups: [{jobs: [a, b], hosts: [h-0, h-1]}]}}"""
CPU = ("1 MB", "3 s"), ("1 MB", "2 s")
NETWORK = ("1 MB", "500 ms"), ("1 MB", "250 ms")
JOB = ("3 MB", "3 s"), ("1 MB", "1 s")
SHAPES = """
from warren.model.decision import NOTHING, Question


class Shapes:
    name, source, offline, needs_rounds = "mine", "test", False, False
    answers = frozenset({Question.SHAPE, Question.PLACE})
    triggers = frozenset()

    def initial(self, view):
        return None

    def decide(self, view, memory):
        return NOTHING, None

    def explain(self, view, memory, job):
        return ""
"""
Grouped = Callable[..., Told]


@pytest.fixture
def grouped(warren: Warren, tmp_path: Path) -> Grouped:
    """Calls the command with a run of two jobs of two tasks on two hosts of 1 MB/s."""

    def call(
        jobs: tuple[tuple[str, str], tuple[str, str]],
        scheduler: str,
        *options: str | Path,
        network: str = "fluid",
        arrival: str = "0 s",
    ) -> Told:
        path = tmp_path / "run.yaml"
        a, b = jobs
        text = RUN.format(a=a, b=b, scheduler=scheduler, network=network, arrival=arrival)
        path.write_text(text)
        return warren("group", path, *options)

    return call


@pytest.mark.parametrize(
    ("jobs", "limit", "job", "iteration_s", "comp_s", "comm_s"),
    [
        (CPU, "cpu", None, 5.0, [3, 2], [1, 1]),
        (NETWORK, "network", None, 2.0, [0.5, 0.25], [1, 1]),
        (JOB, "job", "a", 6.0, [3, 1], [3, 1]),
    ],
)
def test_a_group_is_limited_by_cpu_by_the_network_or_by_a_job(
    grouped: Grouped, jobs: Any, limit: str, job: str | None, iteration_s: float,
    comp_s: list[float], comm_s: list[float],
) -> None:  # fmt: skip
    """A host has a task a round. Half of a model stays on its host, and half is pulled and pushed:
    a second for 1 MB at 1 MB/s, both ways."""
    (group,) = grouped(jobs, TOGETHER, "--json").json["groups"]
    assert (group["limit"], group["job"]) == (limit, job)
    assert group["iteration_s"] == pytest.approx(iteration_s)
    assert [one["comp_s"] for one in group["jobs"]] == pytest.approx(comp_s)
    assert [one["comm_s"] for one in group["jobs"]] == pytest.approx(comm_s)
    alone_s = [comp + comm for comp, comm in zip(comp_s, comm_s, strict=True)]
    assert [one["alone_s"] for one in group["jobs"]] == pytest.approx(alone_s)
    assert group["cpu"] == pytest.approx(sum(comp_s) / iteration_s)
    assert group["network"] == pytest.approx(sum(comm_s) / iteration_s)


def test_the_answer_has_the_fields_that_were_promised(grouped: Grouped) -> None:
    """Each job alone on a host: nothing passes a link, and rounds take two tasks to the ns. The
    first job ends at 20 x 6 s, the second at 20 x 4 s; then the first has both hosts."""
    found = grouped(CPU, "{joint: isolated}", "--json")
    assert (found.code, found.err) == (0, [])
    told = found.json
    assert list(told) == [
        "run", "policy", "at_s", "groups", "waiting", "ungrouped", "other_servers", "cluster",
    ]  # fmt: skip
    assert (told["run"], told["policy"], told["at_s"]) == ("r", {"joint": "isolated"}, 0)
    assert told["waiting"] == told["ungrouped"] == told["other_servers"] == []
    assert told["cluster"] == {"cpu": pytest.approx(1.0), "network": 0.0}
    first, second = sorted(told["groups"], key=lambda one: one["jobs"][0]["job"])
    assert list(first) == [
        "hosts", "iteration_s", "limit", "job", "cpu", "network", "stood_s", "jobs",
    ]  # fmt: skip
    assert first["stood_s"] == second["stood_s"] == [0, 80]
    assert sorted(first["hosts"] + second["hosts"]) == ["h-0", "h-1"]
    assert first["jobs"] == [
        {
            "job": "a", "comp_s": pytest.approx(6), "comm_s": 0, "alone_s": pytest.approx(6),
            "simulated_s": pytest.approx(6), "difference": pytest.approx(0, abs=1e-9),
        }
    ]  # fmt: skip
    assert second["jobs"][0]["simulated_s"] == pytest.approx(4)


def test_a_time_later_on_shows_the_groups_that_stand_then(grouped: Grouped) -> None:
    told = grouped(CPU, "{joint: isolated}", "--at", "90", "--json").json
    (group,) = told["groups"]
    assert (told["at_s"], group["hosts"]) == (90, ["h-0", "h-1"])
    assert [one["job"] for one in group["jobs"]] == ["a"]
    # COMP 3 s, and a second for what is pulled and pushed.
    assert (group["limit"], group["job"]) == ("job", "a")
    assert group["iteration_s"] == pytest.approx(4)
    # Six rounds: before the first one half of the model moves to the other host, and at the end
    # of the last one the first server gets it from there; 0.5 s each.
    assert group["jobs"][0]["simulated_s"] == pytest.approx(4 + (0.5 + 0.5) / 6)


def test_the_first_time_with_most_jobs_is_shown_unless_another_is_given(grouped: Grouped) -> None:
    assert grouped(CPU, "{joint: isolated}", "--json", arrival="12.5 s").json["at_s"] == 12.5


def test_people_get_it_as_a_table(grouped: Grouped) -> None:
    """A round of both takes 7 s under ``srtf``: it has no job compute while another sends."""
    assert grouped(JOB, TOGETHER).out.splitlines() == [
        "r: fixed at 0 s: 1 group with 2 of 2 jobs",
        "1. h-0, h-1: an iteration takes 6 s, limited by job a; CPU 66.7 %, links 66.7 %; "
        "stood from 0 s to 136.5 s",
        "   job  COMP  COMM  alone  simulated  difference",
        "   a    3 s   3 s   6 s    7 s        +16.7 %",
        "   b    1 s   1 s   2 s    7.05 s     +17.5 %",
        "all 2 hosts: CPU 66.7 %, links 66.7 %",
    ]


def test_jobs_in_no_group_and_idle_hosts_are_reported(grouped: Grouped) -> None:
    """One group of one host: its job's bytes stay there, and the other host is idle in (4.4)."""
    alone = TOGETHER.replace("[a, b]", "[a]").replace("[h-0, h-1]", "[h-0]")
    alone = alone.replace("shape: all", "shape: static")
    told = grouped(CPU, alone, "--json").json
    assert (told["policy"], told["ungrouped"], told["waiting"]) == ({"group": "fixed"}, ["b"], [])
    assert told["cluster"] == {"cpu": pytest.approx(0.5), "network": 0.0}
    assert "running in no group: b\n" in grouped(CPU, alone).out


def test_servers_elsewhere_than_comm_is_predicted_for_are_reported(grouped: Grouped) -> None:
    """Under ``static`` a job has one server, and not one on each host of its group."""
    one_server = TOGETHER.replace("shape: all", "shape: static")
    assert grouped(CPU, one_server, "--json").json["other_servers"] == ["a", "b"]
    line = "COMM is predicted for a server on each host, which these have not: a, b\n"
    assert line in grouped(CPU, one_server).out


def test_comm_is_the_stated_synchronization_where_no_bytes_are_on_links(grouped: Grouped) -> None:
    stated = TOGETHER.replace("shape: all, ", "")
    (group,) = grouped(CPU, stated, "--json", network="constant").json["groups"]
    assert [one["comm_s"] for one in group["jobs"]] == [7, 5]
    assert (group["limit"], group["iteration_s"]) == ("network", pytest.approx(12))


def test_jobs_that_wait_are_named(warren: Warren) -> None:
    example = CHECKOUT / "examples" / "groups" / "run.yaml"
    found = warren("group", example, "--joint", "harmony-published")
    assert found.out.startswith("groups: harmony-published at 60 s: 1 group with 3 of 5 jobs\n")
    assert "waiting: lasso, nmf-wide\n" in found.out


def test_a_run_that_does_not_group_is_shown_under_harmony_which_is_said(
    grouped: Grouped, heard: Callable[[], str]
) -> None:
    found = grouped(CPU, "{place: srtf, shape: all}", "--json")
    assert found.json["policy"] == {"joint": "harmony"}
    assert len(found.err) == 1
    assert (
        found.err[0] == "r: no policy of the run groups jobs; joint: harmony stands in their place"
    )
    named = grouped(CPU, "{place: srtf, shape: all}", "--joint", "isolated", "--json")
    assert (named.json["policy"], named.err) == ({"joint": "isolated"}, [])
    # In place of one that does, too.
    assert grouped(CPU, TOGETHER, "--joint", "isolated", "--json").json["policy"] == {
        "joint": "isolated"
    }


@pytest.mark.parametrize(
    ("change", "options", "line"),
    [
        (("name: a,", "name: a, sync: ring,"), (), "sync: warren group groups jobs with parameter"),
        (
            ("devices: {C: 1}", "devices: {C: 1, D: 1}"),
            (),
            "warren group lets each job run on any host; 'a' does not fit D",
        ),
        (("model: fluid", "model: constant"), (), "cannot carry out answers to shape yet"),
        (("a", "a"), ("--at", "200"), "--at: no job is there at 200 s; the first comes at 0 s,"),
        (("a", "a"), ("--at", "-1"), "--at: -1 is no time; allowed: 0 to 1e+09 seconds"),
        (("a", "a"), ("--at", "nan"), "--at: nan is no time; allowed: 0 to 1e+09 seconds"),
        (("a", "a"), ("--joint", "harmonic"), "unknown policy 'harmonic'; did you mean harmony?"),
        (("a", "a"), ("--out", "groups.txt"), "groups.txt: is no picture; allowed: names that end"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(
    warren: Warren, tmp_path: Path, change: tuple[str, str], options: tuple[str, ...], line: str
) -> None:
    path, (a, b) = tmp_path / "run.yaml", CPU
    text = RUN.format(a=a, b=b, scheduler="{joint: isolated}", network="fluid", arrival="0 s")
    path.write_text(text.replace(*change, 1))
    found = warren("group", path, *options)
    assert (found.code, found.out) == (2, "")
    assert line in found.complaint


def test_a_joint_policy_that_does_not_group_is_refused(grouped: Grouped, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SHAPES)
    found = grouped(CPU, "{place: srtf}", "--joint", f"{tmp_path}/mine.py:Shapes")
    assert (found.code, found.out) == (2, "")
    assert "mine.py:Shapes does not answer which jobs share hosts" in found.complaint


def test_no_folder_is_left_and_the_same_picture_is_the_same_file(
    grouped: Grouped, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    found = grouped(JOB, TOGETHER, "--out", first)
    assert found.err == [f"picture: {first}"]
    grouped(JOB, TOGETHER, "--out", second)
    assert first.read_bytes() == second.read_bytes()
    assert b"</svg>" in first.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"run.yaml", "first.svg", "second.svg"}
