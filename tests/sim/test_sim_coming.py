"""Events to come leave in total order (time, rank, sequence)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.model.events import RANK, AnyEvent, CompDone, JobArrived, RoundsDone, Woken
from warren.sim.lanes import EventQueue


def event_of(kind: int, time_ns: int, number: int) -> AnyEvent:
    if kind == 0:
        return CompDone(time_ns, number, 0, 1, (0,), 0)
    if kind == 1:
        return RoundsDone(time_ns, number, 0, 1, False)
    return JobArrived(time_ns, number) if kind == 2 else Woken(time_ns)


STEPS = st.lists(
    st.one_of(st.tuples(st.integers(0, 3), st.integers(0, 4)), st.sampled_from(["take", "drop"])),
    max_size=40,
)


@given(STEPS)
def test_what_leaves_is_sorted_by_time_rank_and_sequence(steps: list[object]) -> None:
    coming, left = EventQueue(), list[tuple[int, int, int, AnyEvent]]()
    for number, step in enumerate(steps):
        if isinstance(step, tuple):
            event = event_of(step[0], step[1], number)
            coming.add(event)
            left.append((event.time_ns, RANK[type(event)], number, event))
        elif step == "drop":
            coming.drop(lambda event: getattr(event, "job", 0) % 3 == 1)
            left = [one for one in left if getattr(one[3], "job", 0) % 3 != 1]
        elif left:
            left.sort(key=lambda one: one[:3])
            now_ns = left[0][0]
            assert coming.first_ns == now_ns
            assert coming.take() == tuple(one[3] for one in left if one[0] == now_ns)
            left = [one for one in left if one[0] != now_ns]
        assert bool(coming) == bool(left)
        assert sorted(map(repr, coming)) == sorted(repr(one[3]) for one in left)
