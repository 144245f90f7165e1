"""A testbed file, and the options in its place: what they mean, what is refused."""

from __future__ import annotations

import pytest

from warren.model.errors import SpecError
from warren.model.testbed import Bed, BedHost, checked_name
from warren.workload.specs.testbed import equal_hosts, load_testbed

FILE = """\
format: 1
subnet: 10.78.0.0/24
hosts:
  - {name: fast, link: 1 Gbit}
  - {name: slow, count: 2, link: 50 Mbit, cpus: 0.5}
"""


def loaded(text: str) -> Bed:
    return load_testbed("bed.yaml", lambda _: text.encode(), "lab")


def complaint(text: str) -> str:
    with pytest.raises(SpecError) as raised:
        loaded(text)
    (problem,) = raised.value.problems
    return str(problem)


def test_a_file_gives_hosts_unlike_links_and_quotas() -> None:
    slow = [BedHost(name=f"slow-{i}", link_bps=50_000_000, cpus=0.5) for i in range(2)]
    fast = BedHost(name="fast", link_bps=1_000_000_000)
    bed = loaded(FILE)
    assert bed == Bed(name="lab", subnet="10.78.0.0/24", hosts=(fast, *slow))
    assert [bed.address(i) for i in range(3)] == ["10.78.0.1", "10.78.0.2", "10.78.0.3"]
    assert (bed.index("slow-1"), bed.index("slow")) == (2, None)


def test_flows_share_links_in_turns_unless_one_queue_for_all_is_asked_for() -> None:
    def of_options(queue: str | None) -> str:
        return equal_hosts(2, "1 Gbit", None, None, "lab", queue).queue

    assert (loaded(FILE).queue, of_options(None)) == ("fair", "fair")
    one_for_all = FILE.replace("format: 1", "format: 1\nqueue: fifo")
    assert (loaded(one_for_all).queue, of_options("fifo")) == ("fifo", "fifo")


def test_options_give_equal_hosts() -> None:
    text = "format: 1\nhosts: [" + ", ".join(f"{{name: h{i}, link: 200Mbit}}" for i in range(4))
    assert equal_hosts(4, "200Mbit", None, None, "lab") == loaded(text + "]")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("format: 1", "format: 2", "bed.yaml:1: format: allowed: 1"),
        ("1 Gbit", "1 Gib", "bed.yaml:4: hosts[0].link: unknown unit 'Gib'"),
        ("1 Gbit", "10 kbps", "hosts[0].link: must be from 10 Mbit to 100 Gbit, got '10 kbps'"),
        ("cpus: 0.5", "cpus: 0", "hosts[1].cpus: must be from 0.01 to 1024 processors, got 0"),
        ("name: fast", "name: Fast", "hosts[0].name: 'Fast' is not a host name"),
        ("name: fast", "name: localhost", "hosts[0].name: 'localhost' is not a host name"),
        ("name: fast", "name: slow-1", "hosts[1].name: slow-1 is the name of another host"),
        ("count: 2", "count: 64", "bed.yaml:4: hosts: must be 2 to 64 hosts in 10.78.0.0/24"),
        ("link: 1 Gbit", "link: 1 Gbit, mtu: 9", "hosts[0].mtu: unknown field; allowed: count"),
        ("format: 1", "format: 1\nqueue: lifo", "queue: 'lifo' is unknown; allowed: fair, fifo"),
        ("10.78.0.0/24", "10.78.0.1/24", "'10.78.0.1/24' is not a network; allowed: a private"),
        ("10.78.0.0/24", "8.8.8.0/24", "'8.8.8.0/24' cannot be used"),
        ("10.78.0.0/24", "127.1.0.0/24", "'127.1.0.0/24' cannot be used"),
        ("10.78.0.0/24", "10.78.0.0/30", "'10.78.0.0/30' cannot be used"),
    ],
)
def test_what_a_file_says_wrongly_is_reported_in_one_line(old: str, new: str, told: str) -> None:
    assert told in complaint(FILE.replace(old, new))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((1, "1 Gbit", None, None), "testbed: --hosts: must be 2 to 64 hosts"),
        ((7, "1 Gbit", None, "10.0.0.0/29"), "--hosts: must be 2 to 6 hosts in 10.0.0.0/29, got 7"),
        ((2, "fast", None, None), "testbed: --link: 'fast' is not a rate"),
        ((2, "1 Gbit", 0.001, None), "testbed: --cpus: must be from 0.01"),
        ((2, "1 Gbit", None, "here"), "testbed: --subnet: 'here' is not a network"),
    ],
)
def test_a_wrong_option_is_named(
    given: tuple[int, str, float | None, str | None], told: str
) -> None:
    with pytest.raises(SpecError) as raised:
        equal_hosts(*given, "lab")
    assert told in str(raised.value)


@pytest.mark.parametrize("name", ["", "A", "a b", "-a", "a-", "a/b", "x" * 21, "a\n"])
def test_a_name_that_could_not_name_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="allowed: 1 to 20 of a-z 0-9"):
        checked_name(name)
