"""Steps of a group as the picture has them, and the picture of many groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from warren.cli.views.group_plot import MOST_GROUPS, draw_groups
from warren.cli.views.group_text import hosts_text
from warren.cost.job_groups import Utilization
from warren.runs.studies.group_steps import LaneStep, lane_steps
from warren.runs.studies.job_groups import GroupedJob, GroupPrediction, RunGroups

HOSTS = tuple(f"h-{at}" for at in range(40))


def group(*jobs: tuple[float, float, float], job: str | None = None) -> GroupPrediction:
    """A group of jobs with these COMP, COMM and iterations alone, named a, b and so on."""
    comp_s, comm_s, alone_s = zip(*jobs, strict=True)
    iteration_s = max(sum(comp_s), sum(comm_s), *alone_s)
    return GroupPrediction(
        hosts=("h-0",),
        jobs=tuple(
            GroupedJob(name=name, comp_s=one[0], comm_s=one[1], alone_s=one[2], simulated_s=None)
            for name, one in zip("abcdefgh", jobs, strict=False)
        ),
        iteration_s=iteration_s,
        use=Utilization(sum(comp_s) / iteration_s, sum(comm_s) / iteration_s),
        limit="job" if job else "network",
        job=job,
        begin_s=0.0,
        end_s=1.0,
    )


def total_s(steps: list[LaneStep], lane: str, job: int | None) -> float:
    return sum(one.end_s - one.begin_s for one in steps if (one.lane, one.job) == (lane, job))


def test_the_network_bound_group_of_fig_4_7a_has_idle_cpu_alone() -> None:
    steps = lane_steps(group((1, 3, 4), (2, 4, 6)), 3)
    assert [total_s(steps, "cpu", job) for job in (0, 1, None)] == pytest.approx([3, 6, 12])
    assert [total_s(steps, "network", job) for job in (0, 1)] == pytest.approx([9, 12])
    assert not [one for one in steps if one.lane == "network" and one.job is None]
    assert min(one.begin_s for one in steps) == 0
    assert max(one.end_s for one in steps) == pytest.approx(21)


def test_the_job_bound_group_of_fig_4_7b_has_both_lanes_idle_and_begins_with_its_job() -> None:
    steps = lane_steps(group((1, 1, 2), (4, 4, 8), job="b"), 2)
    assert [total_s(steps, "cpu", job) for job in (0, 1, None)] == pytest.approx([2, 8, 6])
    assert [total_s(steps, "network", job) for job in (0, 1, None)] == pytest.approx([2, 8, 6])
    assert steps[0] == LaneStep(lane="cpu", job=1, begin_s=0.0, end_s=4.0)


def test_steps_of_a_lane_lie_end_to_end() -> None:
    for one in (group((1, 3, 4), (2, 4, 6)), group((1, 1, 6), (1, 1, 2), job="a")):
        for lane in ("cpu", "network"):
            steps = sorted(
                (step.begin_s, step.end_s) for step in lane_steps(one, 3) if step.lane == lane
            )
            assert steps[0][0] == 0
            assert steps[-1][1] == pytest.approx(3 * one.iteration_s)
            ends, begins = [step[1] for step in steps[:-1]], [step[0] for step in steps[1:]]
            assert ends == pytest.approx(begins)


def test_a_job_with_more_turns_than_others_is_shown_to_the_end() -> None:
    steps = lane_steps(group((1, 1, 60), (1, 1, 2), job="a"), 3)
    assert max(one.end_s for one in steps if one.job == 1) > 177


def test_a_job_that_sends_nothing_has_no_steps_on_the_network() -> None:
    steps = [one for one in lane_steps(group((5, 0, 5)), 2) if one.lane == "network"]
    assert steps == [LaneStep(lane="network", job=None, begin_s=0.0, end_s=10.0)]


@pytest.mark.parametrize("groups", [0, 1, MOST_GROUPS + 2])
def test_no_group_one_and_more_than_are_shown_can_be_drawn(tmp_path: Path, groups: int) -> None:
    path = tmp_path / "groups.svg"
    found = RunGroups(
        run="r", question="joint", policy="harmony", at_s=0.0, hosts=HOSTS,
        groups=(group((1, 3, 4), (2, 4, 6)),) * groups, waiting=(), ungrouped=(), other_servers=(),
        use=Utilization(0.0, 0.0),
    )  # fmt: skip
    draw_groups(path, found)
    text = path.read_text()
    # Each pair of axes is a group of the picture.
    assert text.count('<g id="axes_') == min(max(1, groups), MOST_GROUPS)


@pytest.mark.parametrize(
    ("some", "text"),
    [
        ((0,), "h-0"),
        ((0, 1), "h-0, h-1"),
        ((0, 1, 2, 5), "h-0 to h-2, h-5"),
        ((3, 2, 1), "h-3, h-2, h-1"),
    ],
)
def test_hosts_that_stand_together_are_named_by_the_first_and_the_last(
    some: tuple[int, ...], text: str
) -> None:
    assert hosts_text([HOSTS[at] for at in some], HOSTS) == text
