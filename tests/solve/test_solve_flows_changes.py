"""Rates after flows come, go and change class: those from scratch, and what is said to change."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from flow_cases import (
    Flow,
    Links,
    drawn_flow,
    drawn_job,
    drawn_links,
    loads,
    rates,
    without_bottleneck,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.solve.flows.classes import FlowClasses, strict_classes, weighted_classes
from warren.solve.flows.link_sharing import LinkSharing, NewFlow

pytestmark = pytest.mark.slow

WORLDS = 5 * settings().max_examples
JOB_WORLDS = (*range(60), 1923, 2158)
"""Of three thousand, the last two alone tell whether a link that flows have left counts them still
when it reckons how far its level may fall."""


class Followed:
    """Links that share, what flows there are, and what each change said."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.sharing = LinkSharing(links.capacity_L, links.classes)
        self.flows: dict[int, Flow] = {}

    def change(
        self,
        gone: Sequence[int] = (),
        moved: Sequence[tuple[int, int]] = (),
        new: Sequence[Flow] = (),
    ) -> None:
        """One change, whose answer must be the flows whose rates are others than before."""
        before = {flow: self.sharing.rate_F[flow] for flow in self.flows}
        added, changed = self.sharing.change(
            gone=gone, moved=moved, new=[NewFlow(*one) for one in new]
        )
        for flow in gone:
            del self.flows[flow]
        for flow, flow_class in moved:
            self.flows[flow] = self.flows[flow]._replace(flow_class=flow_class)
        self.flows.update(zip(added, new, strict=True))
        now = {flow: self.sharing.rate_F[flow] for flow in self.flows}
        others = [flow for flow, rate in now.items() if rate != before.get(flow, 0.0)]
        assert changed.tolist() == sorted(others)

    def check(self) -> None:
        """The rates are those from scratch, and those alone."""
        numbers = list(self.flows)
        wanted_F = rates(self.links, list(self.flows.values()))
        found = self.sharing.rate_F
        nothing = 1e-12 * max(self.links.capacity_L)
        assert wanted_F.shape == (len(numbers),)
        # As ``pytest.approx`` compares, which takes longer than all else here.
        close_F = np.abs(found[numbers] - wanted_F) <= np.maximum(1e-9 * np.abs(wanted_F), nothing)
        assert close_F.all(), (found[numbers][~close_F], wanted_F[~close_F])
        assert np.count_nonzero(found) <= len(numbers)

    def turn(self, draw: random.Random) -> None:
        """A flow comes, goes or changes class, or several do at one instant."""
        kind = draw.random()
        classes = len(self.links.classes.rank_K)
        if kind < 0.45 or not self.flows:
            self.change(new=[drawn_flow(draw, self.links)])
        elif kind < 0.7:
            self.change(gone=[draw.choice(list(self.flows))])
        elif kind < 0.9:
            self.change(moved=[(draw.choice(list(self.flows)), draw.randrange(classes))])
        else:
            named = draw.sample(list(self.flows), draw.randint(0, min(4, len(self.flows))))
            cut = draw.randint(0, len(named))
            new = [drawn_flow(draw, self.links) for _ in range(draw.randint(0, 3))]
            moved = [(flow, draw.randrange(classes)) for flow in named[cut:]]
            self.change(gone=named[:cut], moved=moved, new=new)


def test_rates_after_each_change_are_those_from_scratch() -> None:
    for seed in range(WORLDS):
        draw = random.Random(seed)
        followed = Followed(drawn_links(draw))
        for _ in range(15):
            followed.turn(draw)
            followed.check()


@pytest.mark.parametrize("seed", range(6))
def test_rates_after_many_changes_among_many_flows_are_those_from_scratch(seed: int) -> None:
    """Forty links, all tied to each other, up to some hundred flows."""
    draw = random.Random(seed)
    capacity_L = [draw.uniform(1, 10) if seed % 2 else draw.choice([1, 3, 10]) for _ in range(40)]
    followed = Followed(Links(capacity_L, strict_classes(1 + seed % 3)))
    followed.change(new=[drawn_flow(draw, followed.links) for _ in range(150)])
    for _ in range(300):
        followed.turn(draw)
        followed.check()


def test_rates_are_those_from_scratch_when_all_flows_of_a_job_change_at_once() -> None:
    for seed in JOB_WORLDS:
        draw = random.Random(seed)
        hosts, classes = draw.randint(5, 12), draw.randint(1, 3)
        kinds = [1, 3, 10] if seed % 2 else [draw.uniform(1, 10) for _ in range(hosts)]
        capacity_L = [draw.choice(kinds) for _ in range(hosts)] * 2
        by_weight = weighted_classes([1, 2, 3][:classes])
        followed = Followed(Links(capacity_L, strict_classes(classes) if seed % 3 else by_weight))
        jobs: list[list[int]] = []
        for _ in range(40):
            before = set(followed.flows)
            ends = jobs.pop(draw.randrange(len(jobs))) if len(jobs) > draw.randint(3, 12) else []
            moves = draw.choice(jobs) if jobs and draw.random() < 0.4 else []
            begins = drawn_job(draw, hosts, classes) if draw.random() < 0.6 else []
            to_class = draw.randrange(classes)
            followed.change(ends, [(flow, to_class) for flow in moves], begins)
            jobs.append([flow for flow in followed.flows if flow not in before])
            followed.check()


@given(st.integers(0, 10**9), st.integers(1, 60))
def test_rates_after_changes_meet_the_conditions(seed: int, turns: int) -> None:
    draw = random.Random(seed)
    followed = Followed(drawn_links(draw))
    for _ in range(turns):
        followed.turn(draw)
    flows = list(followed.flows.values())
    rate_F = followed.sharing.rate_F[list(followed.flows)]
    links = followed.links
    last = links.classes.ranks - 1
    nothing = 1e-12 * max(links.capacity_L)
    assert np.all(loads(links, flows, rate_F, last) <= np.array(links.capacity_L) + nothing)
    assert not without_bottleneck(links, flows, rate_F)


@given(st.integers(0, 10**9))
def test_what_is_kept_between_changes_is_what_it_is_said_to_be(seed: int) -> None:
    """Levels of flows exactly; of links, what the next sweep counts on to leave them alone."""
    draw = random.Random(seed)
    followed = Followed(drawn_links(draw))
    for _ in range(25):
        followed.turn(draw)
        state = followed.sharing.state
        load_LR = np.zeros_like(state.load_LR)
        at_level_LR = np.zeros_like(state.load_LR)
        for f, flow in followed.flows.items():
            rank = state.rank_K[flow.flow_class]
            links, weight = list(flow.links), state.weight_K[flow.flow_class]
            assert state.share_F[f] == flow.multiplicity * weight
            assert state.level_F[f] == min(flow.cap / weight, state.level_LR[links, rank].min())
            load_LR[links, rank] += state.share_F[f] * state.level_F[f]
            limited = [link for link in links if state.level_F[f] >= state.level_LR[link, rank]]
            at_level_LR[limited, rank] += state.share_F[f]
        room_LR = np.array(followed.links.capacity_L)[:, None] - load_LR.cumsum(axis=1)
        nothing = 1e-12 * max(followed.links.capacity_L)
        used, filled = state.head_LR >= 0, np.isfinite(state.level_LR)
        assert np.all(room_LR[used] >= -nothing)
        assert np.all(room_LR[used & filled] <= nothing)
        assert np.all(state.spare_LR[used & ~filled] <= room_LR[used & ~filled] + nothing)
        assert np.all(state.limited_LR[used & filled] <= at_level_LR[used & filled] + 1e-12)
        assert not state.heap.count[0]


def test_the_same_changes_give_the_same_bits() -> None:
    for seed in range(20):
        found = []
        for _ in range(2):
            draw = random.Random(seed)
            followed = Followed(drawn_links(draw))
            for _ in range(30):
                followed.turn(draw)
            found.append(followed.sharing.rate_F.tobytes())
        assert found[0] == found[1]


def test_a_flow_that_goes_leaves_no_trace() -> None:
    """Rates are again what they were, to the bit: levels are rounded alike."""
    for seed in range(200):
        draw = random.Random(seed)
        links = Links([draw.randint(1, 9) for _ in range(6)], strict_classes(2))
        followed = Followed(links)
        followed.change(new=[drawn_flow(draw, links) for _ in range(8)])
        before = followed.sharing.rate_F[:8].tolist()
        flow, _ = followed.sharing.add([0, 5], 1)
        followed.sharing.remove(flow)
        assert followed.sharing.rate_F[:8].tolist() == before


def test_a_change_says_whose_rates_change() -> None:
    sharing = LinkSharing([10, 10, 4], strict_classes(3))
    first, changed = sharing.add([0], 1)
    assert changed.tolist() == [first]
    apart, changed = sharing.add([2], 1)
    assert changed.tolist() == [apart]
    second, changed = sharing.add([0, 1], 1)
    assert changed.tolist() == [first, second]
    third, changed = sharing.add([1], 2, cap=5)
    assert changed.tolist() == [third]  # the second class takes what is left, and from nobody
    assert sharing.rate_F[:4].tolist() == [5, 4, 5, 5]
    assert sharing.reclassify(second, 2).tolist() == [first, second]
    assert sharing.rate_F[:4].tolist() == [10, 4, 0, 5]
    assert sharing.reclassify(second, 0).tolist() == [first, second, third]
    assert sharing.rate_F[:4].tolist() == [0, 4, 10, 0]
    assert sharing.remove(second).tolist() == [first, third]
    assert sharing.rate_F[:4].tolist() == [10, 4, 0, 5]


def test_what_changes_at_one_instant_is_shared_once() -> None:
    sharing = LinkSharing([12], strict_classes(2))
    (one, two), _ = sharing.change(new=[NewFlow([0], 1), NewFlow([0], 1, 2)])
    assert sharing.rate_F[:2].tolist() == [4, 4]
    (three,), changed = sharing.change(gone=[two], moved=[(one, 0)], new=[NewFlow([0], 0, 2)])
    assert changed.tolist() == [three]  # one has 4 as before
    assert three not in (one, two)
    assert sharing.rate_F[: three + 1].tolist() == [4, 0, 4]
    assert sharing.add([0], 0)[0] == two  # the number is free again


def test_a_change_that_cannot_be_changes_nothing() -> None:
    sharing = LinkSharing([10.0, 5.0], strict_classes(2))
    flow, _ = sharing.add([0], 1)
    for what, match in (
        (lambda: sharing.remove(flow + 1), "no flow 1"),
        (lambda: sharing.remove(-1), "no flow -1"),
        (lambda: sharing.reclassify(flow, 2), "no class 2"),
        (lambda: sharing.add([0], -1), "no class -1"),
        (lambda: sharing.add([2], 1), "does not exist"),
        (lambda: sharing.add([-1], 1), "does not exist"),
        (lambda: sharing.add([1, 1], 1), "twice"),
        (lambda: sharing.add([1], 1, multiplicity=0), "may not be 0"),
        (lambda: sharing.add([1], 1, cap=0), "may not be 0"),
        (lambda: sharing.change(gone=[flow], moved=[(flow, 0)]), "twice at once"),
    ):
        with pytest.raises(ValueError, match=match):
            what()
    assert sharing.rate_F[:2].tolist() == [10, 0]
    sharing.remove(flow)
    with pytest.raises(ValueError, match="no flow 0"):
        sharing.remove(flow)


@pytest.mark.parametrize("capacity", [-1.0, np.inf, np.nan])
def test_a_capacity_is_finite_and_not_negative(capacity: float) -> None:
    with pytest.raises(ValueError, match="no finite capacity"):
        LinkSharing([capacity], strict_classes(1))


def test_flows_find_room_however_many_they_are() -> None:
    sharing = LinkSharing(np.full(50, 300.0), FlowClasses(np.zeros(1, np.int64), np.ones(1)))
    for round_ in range(3):
        flows = [sharing.add(range(size % 50), 0, cap=1000)[0] for size in range(300)]
        assert max(flows) == 299, round_
        assert len(sharing.state.link_C) <= 2 * sum(size % 50 for size in range(300))
        for flow in flows:
            sharing.remove(flow)
    assert not sharing.rate_F.any()
    assert np.all(np.isinf(sharing.state.level_LR))
