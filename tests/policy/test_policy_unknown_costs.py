"""Jobs of unknown cost under policies of groups: started naively, measured, then grouped."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_policy_groups import described, drawn_jobs, recorded, simulated

import warren
from warren.core.journal_reader import History
from warren.model.costs import CostTable
from warren.model.decision import Decision, Group
from warren.model.errors import SpecError
from warren.model.events import RoundsDone, TasksDone
from warren.model.units import NEVER_NS
from warren.model.view import View
from warren.policy.joint.harmony import Harmony
from warren.policy.joint.host_groups import HostGroups
from warren.policy.joint.job_profiles import MEASURED_ROUNDS, NEWEST, JobProfiles
from warren.policy.joint.naive_start import with_unknown
from warren.policy.registry import policy_of

MEASURED = {"costs": "measured"}


def mean_jct_s(history: History) -> float:
    """Of jobs that are all there at time 0."""
    return float(history.finish_ns_J.mean()) / 1e9


@pytest.mark.parametrize("seed", range(2))
def test_six_jobs_of_which_nothing_is_known_end_within_a_tenth_of_the_jct_with_known_costs(
    tmp_path: Path, seed: int
) -> None:
    """Six jobs of other COMP and COMM each; also what they begin as, and that groups change."""
    jobs = drawn_jobs(seed, 6, scale=4, rounds=80)
    scheduler = {"joint": "harmony", "flow": "turns"}
    known = simulated(tmp_path / "known", described(jobs, scheduler))
    found = simulated(tmp_path / "found", described(jobs, scheduler, MEASURED))
    jct_s, known_s = mean_jct_s(found), mean_jct_s(known)
    print(f"mean JCT of seed {seed}: {jct_s:.1f} s measured, {known_s:.1f} s with known costs")
    assert jct_s <= 1.1 * known_s
    groups = found.groups_over_time()
    assert groups[0][1] == (Group((0, 2, 4), (0, 1)), Group((1, 3, 5), (2, 3)))
    at_ns = groups[1][0]
    measured = [
        sum(one.job == job and one.time_ns <= at_ns for one in found.rounds) for job in range(6)
    ]
    assert min(measured) == MEASURED_ROUNDS
    assert groups[1][1] != groups[0][1]


def test_what_costs_are_stated_does_not_matter_where_they_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = described(drawn_jobs(3, 5, scale=4, rounds=12), {"joint": "harmony"}, MEASURED)
    first = simulated(tmp_path / "a", run)
    decide, asked = Harmony.decide, []

    def misled(self: Harmony, view: View, memory: HostGroups) -> tuple[Decision, HostGroups]:
        """Decide by costs in which each job takes what another one does, times its number."""
        costs = view.costs
        wrong = CostTable(
            comp_ns_JT=costs.comp_ns_JT[::-1] * np.arange(1, 6)[:, None],
            sync_ns_JT=costs.sync_ns_JT[::-1] * 7,
            fits_JT=costs.fits_JT,
            model_bytes_J=costs.model_bytes_J,
            step_ns_J=np.full(5, 10**9),
        )
        asked.append(view.now_ns)
        return decide(self, msgspec.structs.replace(view, costs=wrong), memory)

    monkeypatch.setattr(Harmony, "decide", misled)
    again = simulated(tmp_path / "b", run)
    assert asked
    assert again.finish_ns_J.tolist() == first.finish_ns_J.tolist()
    stated = described(drawn_jobs(3, 5, scale=4, rounds=12), {"joint": "harmony"})
    misguided = simulated(tmp_path / "c", stated)
    assert misguided.finish_ns_J.tolist() != first.finish_ns_J.tolist()


@pytest.mark.parametrize("policy", ["harmony", "harmony-published"])
def test_a_job_that_comes_later_is_measured_beside_others_that_stay_where_they_are(
    tmp_path: Path, policy: str
) -> None:
    jobs = drawn_jobs(1, 4, scale=4, rounds=20)
    jobs[3]["arrival"] = "40 s"
    found = simulated(tmp_path, described(jobs, {"joint": policy}, MEASURED))
    changes = found.groups_over_time()
    at = next(at for at, (at_ns, _) in enumerate(changes) if at_ns == 40 * 10**9)
    before, after = changes[at - 1][1], changes[at][1]
    assert not any(3 in group.jobs for group in before)
    others = tuple(
        Group(tuple(job for job in group.jobs if job != 3), group.hosts) for group in after
    )
    assert tuple(group for group in others if group.jobs) == before
    ends_ns = [one.time_ns for one in found.rounds if one.job == 3]
    grouped_ns = changes[at + 1][0]
    # It is grouped once it is known; others may end before.
    assert grouped_ns >= ends_ns[MEASURED_ROUNDS - 1] or grouped_ns in found.finish_ns_J


def test_jobs_are_dealt_to_as_many_groups_as_can_be_and_the_rest_joins_the_smallest() -> None:
    """Nothing runs, and then groups of known jobs do."""
    begun = with_unknown((), (), range(6), 5, 2, {})
    assert begun == (Group((0, 3, 5), (0, 1)), Group((1, 2, 4), (2, 3, 4)))
    known = (Group((0, 1), (0,)), Group((2,), (1,)), Group((3,), (2, 3, 4)))
    assert with_unknown(known, (), [7], 5, 1, {})[1] == Group((2, 7), (1,))
    # One more joins the job that is measured already, and one of free hosts has these.
    measured = (Group((0,), (0, 1)), Group((1, 7), (2, 3, 4)))
    assert with_unknown(measured[:1], measured, [7, 8], 5, 2, {}) == (
        measured[0],
        Group((7, 8), (2, 3, 4)),
    )
    assert with_unknown(known[:2], known[:2], [7], 5, 2, {})[2] == Group((7,), (2, 3, 4))


def test_a_job_for_which_no_group_has_memory_waits_until_one_has() -> None:
    filled = {0: 2.0, 1: 1.5, 2: 0.5}
    found = with_unknown((), (), [0, 1, 2], 4, 2, filled)
    assert found == (Group((0,), (0, 1)), Group((1, 2), (2, 3)))
    assert with_unknown(found, found, [3], 4, 2, filled | {3: 1.0}) == found


def view_of(servers: tuple[int, ...] = (0, 1), network: str = "fluid", model: int = 1000) -> View:
    """Two jobs on two hosts of two device types, with links of 1 kB a second."""
    sizes = np.array([model, model])
    told = SimpleNamespace(
        cluster=SimpleNamespace(
            network=SimpleNamespace(model=network), link_bytes_per_s=(1000.0, 1000.0)
        ),
        costs=CostTable(
            comp_ns_JT=np.full((2, 2), 5),
            sync_ns_JT=np.full((2, 2), 6),
            fits_JT=np.ones((2, 2), bool),
            model_bytes_J=sizes,
        ),
        hosts=SimpleNamespace(host_D=np.array([0, 1]), devices_H=np.array([1, 1])),
        type_D=np.array([0, 1]),
        servers_J=[servers, servers],
        shape_J=[None, None],
        round_bytes_J=np.where(sizes > 0, 4 * sizes, -1),
    )
    return cast("View", told)


def task(start: int, comp: int, push: int, device: int = 0, job: int = 0) -> TasksDone:
    end = start + comp
    return TasksDone(end + push, job, 0, 1, (0,), device, start, end, comp)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=30))
def test_an_average_of_comp_is_within_what_was_measured_and_follows_what_is_new(
    took_ns: list[int],
) -> None:
    view, seen = view_of(), JobProfiles()
    for one in took_ns:
        before = seen.comp_ns.get((0, 0), float(one))
        seen = seen.computed(view, task(0, one, 1))
        assert seen.comp_ns[0, 0] == pytest.approx((1 - NEWEST) * before + NEWEST * one)
    assert min(took_ns) * (1 - 1e-9) <= seen.comp_ns[0, 0] <= max(took_ns) * (1 + 1e-9)
    costs = seen.costs(view)
    # The other type and the other job are taken to be like what was measured.
    assert (costs.comp_ns_JT == round(seen.comp_ns[0, 0])).all()
    before = seen.comp_ns[0, 0]
    for _ in range(9):
        seen = seen.computed(view, task(0, 7, 1))
    assert seen.comp_ns[0, 0] - 7 == pytest.approx((before - 7) * (1 - NEWEST) ** 9, abs=1e-3)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=8), st.integers(1, 8))
def test_links_are_as_quick_as_the_pushes_that_no_other_job_slowed(
    waits_ms: list[int], sent: int
) -> None:
    """A push of 500 of 1000 B takes half a second, some wait for those of other jobs; at last
    several go at once, of which none waits."""
    view, seen, at = view_of(), JobProfiles(), 0
    for wait_ms in waits_ms:
        seen = seen.computed(view, task(at, 10, 500_000_000 + wait_ms * 10**6))
        at += 10**10
    for number in range(sent):
        seen = seen.computed(view, task(at, 10 + number, sent * 500_000_000 - number))
    seen = seen.passed(view, RoundsDone(at, 0, 0, 1, False))
    assert seen.slower[0] == pytest.approx(1.0)
    assert seen.costs(view).model_bytes_J == pytest.approx([1000, 1000])
    # Of the next round all pushes take twice as long.
    seen = seen.computed(view, task(at, 10, 1_000_000_000))
    seen = seen.passed(view, RoundsDone(at, 0, 1, 1, False))
    assert seen.slower[0] == pytest.approx(1 + NEWEST)
    # What a link gives another job is what it gives this one.
    seen = seen.computed(view, task(at, 10, 500_000_000, 1, 1))
    seen = seen.passed(view, RoundsDone(at, 1, 0, 1, False))
    assert seen.costs(view).model_bytes_J == pytest.approx([1000, 1000])


def test_bytes_within_a_host_tell_nothing_of_links_and_without_links_a_push_is_t_s() -> None:
    for view, expected in (
        (view_of((0,)), 0),
        (view_of(network="constant"), 40),
        (view_of(model=0), 40),
    ):
        seen = JobProfiles()
        for round_ in range(MEASURED_ROUNDS):
            assert not seen.knows(0)
            for push in (90, 40):
                seen = seen.computed(view, task(round_ * 1000, 10, push))
            seen = seen.passed(view, RoundsDone(0, 0, round_, 1, False))
        assert seen.knows(0)
        assert not seen.knows(1)
        assert not seen.slower
        assert seen.costs(view).sync_ns_JT.tolist() == [[expected] * 2, [0, 0]]


def test_a_type_that_a_job_does_not_fit_stays_out_of_its_costs() -> None:
    view = view_of()
    costs = CostTable(
        comp_ns_JT=np.array([[5, NEVER_NS], [5, 5]]),
        sync_ns_JT=np.array([[5, NEVER_NS], [5, 5]]),
        fits_JT=np.array([[True, False], [True, True]]),
    )
    cast("Any", view).costs = costs
    found = JobProfiles().computed(view, task(0, 30, 1)).costs(view)
    assert found.comp_ns_JT.tolist() == [[30, NEVER_NS], [30, 30]]
    assert found.model_bytes_J is None


def test_rounds_of_a_job_that_went_back_are_measured_again(tmp_path: Path) -> None:
    seen = JobProfiles().computed(view_of(), task(0, 10, 40))
    assert seen.pushes
    assert not seen.without(0).pushes
    assert seen.without(1) is seen


def test_a_job_says_that_it_is_measured_until_it_is_grouped(tmp_path: Path) -> None:
    run = described(drawn_jobs(0, 3, scale=4, rounds=6), {"joint": "harmony"}, MEASURED)
    record = recorded(tmp_path, run)
    view = SimpleNamespace(
        arrived_J=np.ones(3, bool), jobs=record.run.workload.jobs, cluster=record.run.cluster
    )
    memory = HostGroups(groups=(Group((0, 1), (0, 1)),), profiles=JobProfiles())
    text = Harmony(costs="measured").explain(cast("View", view), memory, 0)
    assert text == "its costs are measured: shares h0, h1 with j1"
    grouped = HostGroups(groups=memory.groups, grouped=frozenset({0, 1}))
    assert Harmony().explain(cast("View", view), grouped, 0) == "shares h0, h1 with j1"


def test_costs_are_stated_or_measured_and_nothing_else(tmp_path: Path) -> None:
    for policy in ("harmony", "harmony-published"):
        for wrong, said in (
            ({"costs": "unknown"}, "costs is 'unknown'; allowed: stated, measured"),
            ({"costs": 1}, f"costs: {policy} expects text, got 1"),
        ):
            with pytest.raises(SpecError, match=said):
                policy_of("joint", policy, wrong)
    run = described(drawn_jobs(0, 2), {"joint": "isolated"}, MEASURED)
    with pytest.raises(SpecError, match="isolated does not accept this option"):
        warren.simulate(run, out=tmp_path / "x")
