"""What passed each link: every byte is in the bin in which it passed, however long the run is."""

from __future__ import annotations

import time
from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.model import link_use
from warren.model.link_use import FIRST_BIN_NS, LinkUse, LinkUseRecorder

Interval = tuple[tuple[int, ...], int, int, int, int, float]
"""Arguments of ``add``: links, job, class, begin, end, bytes."""
Key = tuple[int, int, int, int]

# Some intervals lie in one bin, some in many, and some make all bins longer several times.
times = st.one_of(st.integers(0, 10**7), st.integers(0, 10**12))
intervals = st.tuples(
    st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple),
    st.integers(0, 3),
    st.integers(0, 7),
    times,
    st.one_of(st.just(0), st.integers(1, 10**6), times),
    st.floats(0, 1e12),
).map(lambda one: (*one[:4], one[3] + one[4], one[5]))


def recorded(noted: list[Interval], bins: int = 16) -> LinkUse:
    recorder = LinkUseRecorder(3, bins)
    for one in noted:
        recorder.add(*one)
    return recorder.use()


def by_key(use: LinkUse) -> dict[Key, int]:
    keys = zip(use.link_R, use.job_R, use.class_R, use.bin_R, strict=True)
    return dict(zip(keys, use.bytes_R.tolist(), strict=True))


def cut_by_hand(noted: list[Interval], bin_ns: int) -> dict[Key, Fraction]:
    """Cut each interval at the borders of bins of their last length, exactly."""
    found: dict[Key, Fraction] = defaultdict(Fraction)
    for links, job, kind, begin, end, count in noted:
        for bin_no in range(begin // bin_ns, max(begin, end - 1) // bin_ns + 1):
            inside = min(end, (bin_no + 1) * bin_ns) - max(begin, bin_no * bin_ns)
            part = Fraction(inside, end - begin) if end > begin else Fraction(1)
            for link in links:
                found[link, job, kind, bin_no] += Fraction(count) * part
    return found


@given(st.lists(intervals, max_size=30))
def test_bins_that_were_merged_hold_what_bins_of_the_last_length_would(
    noted: list[Interval],
) -> None:
    use = recorded(noted)
    byte_counts = by_key(use)
    for key, exact in cut_by_hand(noted, use.bin_ns).items():
        assert abs(byte_counts.get(key, 0) - exact) <= 1 + exact / 10**9
    assert set(byte_counts) <= set(cut_by_hand(noted, use.bin_ns))


@given(st.lists(intervals, max_size=30))
def test_no_byte_is_lost_or_made_up(noted: list[Interval]) -> None:
    sent = sum(len(one[0]) * Fraction(one[5]) for one in noted)
    assert abs(int(recorded(noted).bytes_R.sum()) - sent) <= 1 + sent / 10**12


@given(st.lists(intervals, max_size=30))
def test_bins_are_as_short_as_the_run_allows_and_rows_are_in_order(noted: list[Interval]) -> None:
    use = recorded(noted)
    last_ns = max((max(begin + 1, end) for _, _, _, begin, end, _ in noted), default=0)
    assert use.bin_ns == FIRST_BIN_NS or 8 * use.bin_ns < last_ns
    assert last_ns <= 16 * use.bin_ns
    assert list(by_key(use)) == sorted(by_key(use))
    assert len(by_key(use)) == len(use)


@given(st.lists(intervals, min_size=2, max_size=30), st.integers(1, 5))
def test_it_does_not_matter_when_intervals_are_added_up(noted: list[Interval], size: int) -> None:
    whole = recorded(noted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_use, "_BUFFERED", size)
        patch.setattr(link_use, "_PIECES", 7)
        parts = recorded(noted)
    assert whole.bin_ns == parts.bin_ns
    # Sums of floats differ by their order, and by as much as a byte when they are rounded.
    one, other = by_key(whole), by_key(parts)
    for key in one.keys() | other.keys():
        assert abs(one.get(key, 0) - other.get(key, 0)) <= 1 + one.get(key, 0) / 10**9


def test_what_was_noted_before_stays_when_use_is_asked_twice() -> None:
    recorder = LinkUseRecorder(1)
    recorder.add((0, 1), 0, 0, 0, 10, 100.0)
    assert recorder.use().bytes_R.tolist() == [100, 100]
    recorder.add((0,), 0, 0, 0, 10, 5.0)
    assert recorder.use().bytes_R.tolist() == [105, 100]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (((0,), 0, 0, 5, 4, 1.0), "-1 is not the length"),
        (((0,), 0, 8, 0, 1, 1.0), "8 is not the class"),
        (((0,), -1, 0, 0, 1, 1.0), "-1 is not the job"),
        (((0,), 0, 0, -1, 1, 1.0), "-1 is not the begin"),
        (((0,), 0, 0, 0, 1, -1.0), "-1.0 is not the number of bytes"),
        (((0,), 0, 0, 0, 1, float("nan")), "nan is not the number of bytes"),
        (((-1,), 0, 0, 0, 1, 1.0), "a link is none"),
        (((6,), 0, 0, 0, 1, 1.0), "a link is none"),
    ],
)
def test_what_no_row_can_hold_is_refused(wrong: Interval, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        recorded([wrong])


@pytest.mark.parametrize(("hosts", "bins"), [(1, 0), (1, 3), (1, 2**17), (2**20, 16)])
def test_a_recorder_that_could_not_name_its_rows_is_refused(hosts: int, bins: int) -> None:
    with pytest.raises(ValueError, match="cannot record"):
        LinkUseRecorder(hosts, bins)


def test_intervals_of_a_large_run_cost_little() -> None:
    # 100,000 transfers on 80 links of 200 jobs: a million take ten times as long, and the limit
    # leaves room for a busy machine.
    recorder = LinkUseRecorder(40)
    begin = time.process_time()
    for one in range(100_000):
        at_ns = one * 10**7
        links = (2 * (one % 40), 2 * (one * 7 % 40) + 1)
        recorder.add(links, one * 13 % 200, 0, at_ns, at_ns + 10**9, 1e8)
    assert recorder.use().bytes_R.sum() == 2 * 10**13
    assert time.process_time() - begin < 1.0
