"""When flows of so many bytes end: by hand, and beside a loop that finds all rates from scratch."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from warren.solve.flows.classes import strict_classes
from warren.solve.flows.link_sharing import NewFlow
from warren.solve.flows.max_min import max_min
from warren.solve.flows.timed_flows import NO_END_NS, TimedFlows

S = 10**9
Begun = tuple[int, list[int], int, float, float]
"""When, over which links, in which class, how many bytes, how many flows."""


def played(
    capacity_L: list[float], begun: list[Begun], moved: list[tuple[int, int, int]]
) -> tuple[dict[int, int], TimedFlows]:
    """Ends by the place in ``begun``; ``moved``: when, place, class."""
    flows = TimedFlows(capacity_L, strict_classes(3), notes=True)
    place_of, ends = dict[int, int](), dict[int, int]()
    times = sorted({time for time, *_ in begun} | {time for time, *_ in moved})
    while times or flows.next_ns < NO_END_NS:
        now = min([*times[:1], flows.next_ns])
        for number in flows.end(now) if flows.next_ns <= now else ():
            ends[place_of.pop(number)] = now
        if times[:1] == [now]:
            times.pop(0)
        for at, place, flow_class in moved:
            for number in [n for n, k in place_of.items() if at == now and k == place]:
                flows.reclassify(number, flow_class)
        for place, (at, links, flow_class, size, count) in enumerate(begun):
            if at == now:
                flow = NewFlow(links, flow_class, count)
                place_of[flows.begin(flow, size, place, now)] = place
        flows.share(now)
    return ends, flows


def test_what_is_left_goes_on_at_the_new_rate_by_hand() -> None:
    """From 1 s on a byte is left of the first, beside two flows as one: a third each, to 4 s. Then
    each of the two has a byte left, and a half of the link."""
    ends, flows = played([1.0], [(0, [0], 1, 2.0, 1), (S, [0], 1, 2.0, 2)], [])
    assert ends == {0: 4 * S, 1: 6 * S}
    assert flows.next_ns == NO_END_NS


def test_a_flow_of_a_later_class_waits_and_has_no_end_meanwhile_by_hand() -> None:
    begun = [(0, [0], 2, 2.0, 1.0), (S, [0], 1, 3.0, 1.0)]
    assert played([1.0], begun, [])[0] == {0: 5 * S, 1: 4 * S}
    assert played([1.0], begun, [(2 * S, 0, 0)])[0] == {0: 3 * S, 1: 5 * S}


def test_a_flow_that_has_sent_before_goes_on_by_hand() -> None:
    """It has had all of the link for a second, and keeps its end as long as it keeps its rate."""
    flows = TimedFlows([1.0], strict_classes(1), notes=True)
    flows.go_on(flows.begin(NewFlow([0], 0), 3.0, 7, S), 1.0, 0, 3 * S)
    flows.share(S)
    assert flows.next_ns == 3 * S
    flows.begin(NewFlow([0], 0), 9.0, 8, S)
    flows.share(S)
    assert flows.next_ns == 5 * S  # 2 bytes are left, at half of the link


def slowly(
    capacity_L: list[float], begun: list[Begun], moved: list[tuple[int, int, int]]
) -> dict[int, float]:
    """The same, with all rates from scratch at each instant, in floats."""
    left = dict[int, float]()
    kind = [flow_class for _, _, flow_class, _, _ in begun]
    ends, now = dict[int, float](), 0.0
    while True:
        there = sorted(left)
        rates = {}
        if there:
            first = np.cumsum([0, *(len(begun[k][1]) for k in there)])
            found = max_min(
                capacity_L, first, [link for k in there for link in begun[k][1]],
                [kind[k] for k in there], strict_classes(3),
                multiplicity_F=[begun[k][4] for k in there],
            )  # fmt: skip
            rates = dict(zip(there, (found / S).tolist(), strict=True))
        due = [now + left[k] / rates[k] for k in there if rates[k] > 0]
        due += [
            at for at, *_ in [*begun, *moved] if at > now or (not left and not ends and at == 0)
        ]
        if not due:
            return ends
        then = float(min(due))
        for k in there:
            left[k] -= rates[k] * (then - now)
            # The other one counts whole nanoseconds.
            if rates[k] > 0 and left[k] <= 2 * rates[k]:
                ends[k] = then
                del left[k]
        now = then
        for at, place, flow_class in moved:
            if at == now and place in left:
                kind[place] = flow_class
        for place, (at, _, _, size, _) in enumerate(begun):
            if at == now and place not in left and place not in ends:
                left[place] = size


@pytest.mark.parametrize("seed", range(20))
def test_flows_end_when_a_loop_from_scratch_says_and_all_bytes_are_noted(seed: int) -> None:
    draw = random.Random(seed)
    capacity_L = [float(draw.randint(1, 9)) * 1000 for _ in range(5)]
    begun: list[Begun] = [
        (
            draw.randrange(5 * S), sorted(draw.sample(range(5), draw.randint(1, 2))),
            draw.randrange(3), float(draw.randint(1, 9000)), float(draw.randint(1, 3)),
        )
        for _ in range(draw.randint(1, 90))
    ]  # fmt: skip
    begun[0] = (0, *begun[0][1:])
    moved = [
        (draw.randrange(9 * S), draw.randrange(len(begun)), draw.randrange(3)) for _ in range(9)
    ]
    ends, flows = played(capacity_L, begun, moved)
    assert ends == pytest.approx(slowly(capacity_L, begun, moved), abs=200)
    noted, passed = flows.passed(), defaultdict[int, float](float)
    assert len(noted.link_N) == noted.what_I5[:, 4].sum()
    for (owner, _, begin_ns, end_ns, _), size in zip(
        noted.what_I5.tolist(), noted.bytes_I.tolist(), strict=True
    ):
        assert begun[owner][0] <= begin_ns <= end_ns <= ends[owner]
        passed[owner] += size
    assert passed == pytest.approx({k: size * count for k, (*_, size, count) in enumerate(begun)})
    assert flows.noted == 0
