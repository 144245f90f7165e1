"""Whom the coordinator of flows asks, and what it makes of answers, late answers and none."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.live.enforcement.coordination.messages import AgentHello, JobGain, JobNodes
from warren.live.enforcement.coordination.state import AgentFault, Coordination
from warren.live.enforcement.requests import Endpoint, PeerClass

ENDS = (Endpoint("10.0.0.1", ((29500, 29500),)),)


def _join(
    core: Coordination,
    agent: str,
    *jobs: str,
    instance: int = 0,
    queues: bool = False,
    **nodes: Any,
) -> None:
    told = {"endpoints": ENDS, "reads": True, "ended": False, **nodes}
    hello = AgentHello(
        protocol=2, agent=agent, instance=bytes([instance] * 16), jobs=tuple(jobs), queues=queues
    )
    core.join(hello)
    for job in jobs:
        core.hear(agent, JobNodes(job=job, **told))


def _period(core: Coordination, gains: dict[str, float | None]) -> dict[str, int | None]:
    """One period in which those answer whose gain is here."""
    for agent, jobs in core.begin().items():
        for job in jobs:
            if job in gains:
                core.hear(agent, JobGain(period=core.period, job=job, gain=gains[job]))
    return core.order()


def test_jobs_4_9_20_and_21_of_all_are_1_2_3_and_4_on_their_host() -> None:
    core = Coordination(0, 5)
    names = [f"j{number:02}" for number in range(1, 22)]
    here = ["j04", "j09", "j20", "j21"]
    _join(core, "a", *here)
    # Jobs that meet nobody on their hosts.
    for name in names:
        if name not in here:
            _join(core, f"only-{name}", name)
    order = _period(core, {name: 1.0 / (1 + at) for at, name in enumerate(names)})
    assert core.classes_of("a", order) == {"j04": 1, "j09": 2, "j20": 3, "j21": 4}
    assert all(order[name] == 1 for name in names if name not in here)


def test_a_job_on_two_hosts_has_one_class_that_keeps_the_order_on_both() -> None:
    core = Coordination(0, 5)
    _join(core, "a", "first", "both")
    _join(core, "b", "second", "both", "last")
    order = _period(core, {"first": 0.9, "second": 0.5, "both": 0.3, "last": 0.1})
    assert core.classes_of("a", order) == {"first": 1, "both": 2}
    assert core.classes_of("b", order) == {"second": 1, "both": 2, "last": 3}
    # Worked out by hand: "long" is third on a, so third on b, where it is second.
    core = Coordination(0, 5)
    _join(core, "a", "x", "y", "long")
    _join(core, "b", "z", "long", "tail")
    order = _period(core, {"x": 0.9, "y": 0.8, "z": 0.7, "long": 0.6, "tail": 0.5})
    assert core.classes_of("b", order) == {"z": 1, "long": 3, "tail": 4}


def _addressed(core: Coordination, agents: dict[str, list[str]], **rest: Any) -> None:
    """Join agents on hosts of one address each, ``10.0.0.N`` in their order."""
    for number, (agent, jobs) in enumerate(agents.items()):
        ends = (Endpoint(f"10.0.0.{number}", ((1, 1),)),)
        told = {"queues": True, "endpoints": ends, "addresses_own": True, **rest}
        _join(core, agent, *jobs, **told)


def test_where_hosts_have_more_flows_than_queues_each_end_has_the_order_of_pseudocode_1() -> None:
    """16 jobs of three nodes each on 13 hosts: by one class a job many fall together."""
    draw, core = random.Random(3), Coordination(0, 5)
    names = [f"j{number:02}" for number in range(16)]
    on: dict[str, list[str]] = {f"h{number:02}": [] for number in range(13)}
    for name in names:
        for host in draw.sample(sorted(on), 3):
            on[host].append(name)
    _addressed(core, on)
    order = _period(core, {name: 1.0 / (1 + at) for at, name in enumerate(names)})
    place = {host: {job: 1 + at for at, job in enumerate(jobs)} for host, jobs in on.items()}
    number = {f"10.0.0.{at}": host for at, host in enumerate(on)}
    fallen = 0
    for host, jobs in on.items():
        said = core.orders_of(host, order)
        fallen += len(jobs) - len({order[job] for job in jobs})
        assert said.classes == {job: order[job] for job in jobs}
        assert said.queues == {job: min(7, place[host][job]) for job in jobs}
        for job in jobs:
            by = {number[one.address]: one.flow_class for one in said.peers.get(job, ())}
            for other in on:
                if other != host and job in on[other]:
                    assert by.get(other, order[job]) == min(7, place[other][job])
    assert fallen > 0, "by one class a job no two fall together: the case shows nothing"


def test_marks_are_by_job_alone_unless_all_agents_have_queues_and_addresses_are_known() -> None:
    jobs = {"a": ["x", "y", "long"], "b": ["z", "long", "tail"]}
    gains = {"x": 0.9, "y": 0.8, "z": 0.7, "long": 0.6, "tail": 0.5}
    core = Coordination(0, 5)
    _addressed(core, jobs)
    said = core.orders_of("a", _period(core, gains))
    # "long" is third on a, and second on b.
    assert (said.classes["long"], said.queues["long"]) == (3, 3)
    assert said.peers == {"long": (PeerClass("10.0.0.1", 2),)}
    core = Coordination(0, 5)
    _addressed(core, jobs)
    _join(core, "c", "other")
    said = core.orders_of("b", _period(core, gains))
    assert (said.queues["long"], said.peers) == (2, {})
    core = Coordination(0, 5)
    _addressed(core, jobs, addresses_own=False)
    said = core.orders_of("a", _period(core, gains))
    assert said.peers == {}
    core = Coordination(0, 5)
    _addressed(core, jobs, queues=False)
    said = core.orders_of("a", _period(core, gains))
    assert (said.queues, said.peers) == ({}, {})


def test_the_last_class_takes_the_rest_and_who_is_not_known_goes_first() -> None:
    core = Coordination(0, 5)
    names = [f"j{number}" for number in range(9)]
    _join(core, "a", *names, "new")
    order = _period(core, {name: float(9 - at) for at, name in enumerate(names)} | {"new": None})
    assert [order[name] for name in names] == [1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert order["new"] == 0


def test_a_gain_stands_for_so_many_periods_without_an_answer_and_then_is_not_known() -> None:
    core = Coordination(0, keep_periods=2)
    _join(core, "a", "slow", "other")
    assert _period(core, {"slow": 0.5, "other": 0.1}) == {"slow": 1, "other": 2}
    for _ in range(2):
        assert _period(core, {"other": 0.1}) == {"slow": 1, "other": 2}
        assert not core.answered()
    assert core.rows(core.order())[1]["gain_periods"] == 2
    assert _period(core, {"other": 0.1}) == {"slow": 0, "other": 1}
    assert core.rows(core.order())[1]["state"] == "not known"


def test_an_answer_that_comes_late_counts_but_is_as_old_as_its_question() -> None:
    core = Coordination(0, keep_periods=2)
    _join(core, "a", "x")
    core.begin()
    core.begin()
    core.hear("a", JobGain(period=1, job="x", gain=0.4))
    assert core.order() == {"x": 1}
    core.hear("a", JobGain(period=2, job="x", gain=0.3))
    core.begin()
    core.begin()
    assert core.order() == {"x": 1}
    core.begin()
    assert core.order() == {"x": 0}
    # One that is older than what is known does not take its place.
    core = Coordination(0, keep_periods=5)
    _join(core, "a", "x")
    core.begin()
    core.begin()
    core.hear("a", JobGain(period=2, job="x", gain=0.7))
    core.hear("a", JobGain(period=1, job="x", gain=0.1))
    assert core.rows(core.order())[0]["gain"] == 0.7


def test_each_agent_with_a_log_is_as_likely_to_be_asked_for_each_job_alone() -> None:
    drawn: Counter[tuple[str, str]] = Counter()
    draws = 0
    for seed in range(30):
        core = Coordination(seed, 5)
        for agent in ("a", "b", "c"):
            _join(core, agent, "x", "y")
        _join(core, "without", "x", "y", reads=False)
        _join(core, "over", "x", "y", ended=True)
        for _ in range(100):
            asked = {job: agent for agent, jobs in core.begin().items() for job in jobs}
            drawn[asked["x"], asked["y"]] += 1
            draws += 1
    assert len(drawn) == 9
    # Chi-square of nine equal cells, 8 degrees of freedom: above 26.1 once in a thousand.
    assert sum((n - draws / 9) ** 2 / (draws / 9) for n in drawn.values()) < 26.1


def test_the_same_seed_asks_the_same_agents() -> None:
    def asked(seed: int) -> list[dict[str, tuple[str, ...]]]:
        core = Coordination(seed, 5)
        for agent in ("a", "b"):
            _join(core, agent, "x", "y", "z")
        return [core.begin() for _ in range(20)]

    assert asked(3) == asked(3) != asked(4)


def test_an_agent_that_goes_is_waited_for_no_more_and_the_rest_is_ordered() -> None:
    core = Coordination(0, keep_periods=1)
    _join(core, "a", "x", "both")
    _join(core, "b", "y", "both")
    assert _period(core, {"x": 0.1, "y": 0.2, "both": 0.5}) == {"both": 1, "x": 2, "y": 2}
    core.begin()
    core.leave("a")
    for job in ("y", "both"):
        if (core.period, job) in core._asked:
            core.hear("b", JobGain(period=core.period, job=job, gain=0.2))
    assert core.answered()
    assert core.order() == {"both": 1, "y": 2}
    assert set(core.begin()) == {"b"}


def test_two_agents_of_one_name_are_refused_but_the_same_one_may_come_again() -> None:
    core = Coordination(0, 5)
    _join(core, "a", "x")
    with pytest.raises(AgentFault, match="another agent is called a"):
        _join(core, "a", "y", instance=1)
    assert _period(core, {"x": 0.5}) == {"x": 1}
    _join(core, "a", "x", "z")
    assert core.agents == ("a",)
    assert core.order() == {"x": 1, "z": 0}


def test_a_gain_nobody_asked_for_is_a_fault_and_changes_nothing() -> None:
    core = Coordination(0, 5)
    _join(core, "a", "x")
    _join(core, "b", "y")
    asked = core.begin()
    assert asked == {"a": ("x",), "b": ("y",)}
    for agent, job, period in (("b", "x", 1), ("b", "y", 2), ("a", "x", 0), ("a", "nobodys", 1)):
        with pytest.raises(AgentFault):
            core.hear(agent, JobGain(period=period, job=job, gain=9.0))
    core.hear("a", JobGain(period=1, job="x", gain=0.5))
    with pytest.raises(AgentFault):
        core.hear("a", JobGain(period=1, job="x", gain=9.0))
    assert core.order() == {"x": 1, "y": 0}


def test_a_gain_stands_while_all_logs_of_its_job_are_silent_and_an_unknown_one_goes_last() -> None:
    core = Coordination(0, 2)
    _join(core, "a", "x", "y", "new")
    _join(core, "b", "x")
    _join(core, "without", "x", reads=False)
    core.hear("a", JobNodes(job="x", endpoints=ENDS, reads=True, ended=True))
    assert _period(core, {"x": 0.5, "y": 0.1}) == {"x": 1, "y": 2, "new": 0}
    core.hear("b", JobNodes(job="x", endpoints=ENDS, reads=True, ended=True))
    core.hear("a", JobNodes(job="new", endpoints=ENDS, reads=True, ended=True))
    for _ in range(5):
        assert _period(core, {"y": 0.1}) == {"x": 1, "y": 2, "new": 7}
    assert [row["state"] for row in core.rows(core.order())] == ["silent", "silent", "ordered"]
    assert core.classes_of("without", core.order()) == {"x": 1}
    # A job that has a log on no host, and never gave a line.
    core.hear("a", JobNodes(job="new", endpoints=ENDS, reads=False, ended=True))
    assert _period(core, {"y": 0.1})["new"] == 7


def test_an_agent_that_says_nothing_for_longer_than_things_stand_is_named() -> None:
    core = Coordination(0, keep_periods=2)
    _join(core, "a", "x")
    _join(core, "b", "y")
    for _ in range(3):
        assert core.silent() == ()
        _period(core, {"y": 0.1})
    assert core.silent() == ("a",)


def test_a_host_without_nodes_of_a_job_does_not_hold_it_back() -> None:
    core = Coordination(0, 5)
    _join(core, "a", "x", "y")
    core.hear("a", JobNodes(job="x", endpoints=(), reads=True, ended=False))
    assert _period(core, {"x": 0.9, "y": 0.1}) == {"x": 1, "y": 1}


_AGENTS = st.sampled_from("abc")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), _AGENTS, st.sets(st.sampled_from("uvwxyz"), min_size=1)),
        st.tuples(st.just("leave"), _AGENTS, st.none()),
        st.tuples(st.just("nodes"), _AGENTS, st.tuples(st.booleans(), st.booleans())),
        st.tuples(
            st.just("period"),
            st.dictionaries(st.sampled_from("uvwxyz"), st.none() | st.floats(0, 1)),
            st.none(),
        ),
    ),
    max_size=30,
)


@given(steps=_STEPS, keep=st.integers(1, 3))
def test_whoever_comes_goes_or_is_silent_classes_keep_the_order_of_known_gains(
    steps: list[Any], keep: int
) -> None:
    core = Coordination(1, keep)
    told: dict[str, tuple[int, float]] = {}
    for kind, who, what in steps:
        if kind == "join":
            _join(core, who, *sorted(what))
        elif kind == "leave":
            core.leave(who)
        elif kind == "nodes":
            for job in core._agents[who].nodes if who in core.agents else ():
                ends = ENDS if what[0] else ()
                core.hear(who, JobNodes(job=job, endpoints=ends, reads=True, ended=what[1]))
        else:
            for job, (period, gain) in told.items():
                if _silent(core, job) and period >= core.period - keep:
                    told[job] = core.period + 1, gain  # nobody is asked, and it stands
            asked = [(agent, job) for agent, jobs in core.begin().items() for job in jobs]
            assert len(asked) == len({job for _, job in asked})
            for agent, job in asked:
                if job in who:
                    core.hear(agent, JobGain(period=core.period, job=job, gain=who[job]))
                    if who[job] is not None:
                        told[job] = core.period, who[job]
            _check_order(core, told, keep)


def _silent(core: Coordination, job: str) -> bool:
    """Whether all logs of a job have been told to be silent; each host of these has one."""
    told = [one for agent in core.agents if (one := core._agents[agent].nodes.get(job))]
    return bool(told) and all(one.ended for one in told)


def _check_order(core: Coordination, told: dict[str, tuple[int, float]], keep: int) -> None:
    """What is written here from the words of docs/guides/flows.md."""
    order = core.order()
    known = {job: gain for job, (period, gain) in told.items() if period >= core.period - keep}
    for job, kind in order.items():
        last = _silent(core, job) and job not in known
        assert kind == 7 if last else (kind > 0) == (job in known)
    for agent in core.agents:
        nodes = core._agents[agent].nodes
        here = [
            job
            for job, one in nodes.items()
            if one and one.endpoints and order[job] and job in known
        ]
        here.sort(key=lambda job: (-known[job], job))
        kinds = [order[job] or 0 for job in here]
        assert all(low < high or low == high == 7 for low, high in pairwise(kinds))
        assert core.classes_of(agent, order) == {j: order[j] for j in nodes}
