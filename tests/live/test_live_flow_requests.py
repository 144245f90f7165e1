"""The privileged helper does what is on its list, with allowed fields, and nothing else."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from warren.live.enforcement import helper
from warren.live.enforcement.requests import (
    Endpoint,
    FlowRequest,
    MarkFlows,
    SetUpQueues,
    code_points_of,
    decoded,
    ports_of,
)
from warren.live.enforcement.rules import marks, merged, queue_lines, queue_table
from warren.live.flow_marks import CODE_POINTS
from warren.model.errors import SpecError

SET_UP = {"type": "set-up", "label": "a", "device": "eth0", "rate_bps": 10**9}
MARK = {"type": "mark", "label": "a", "job": "j", "flow_class": 1}
ENDS = {"endpoints": [{"address": "10.0.0.1", "ports": [[1, 2]]}]}
BAD: list[tuple[Any, str]] = [
    ("no json", "malformed"),
    ({"type": "run", "label": "a"}, "Invalid value 'run'"),
    ({"type": "list"}, "label"),
    ({"type": "list", "label": "a", "command": "ls"}, "unknown field"),
    ({"type": "list", "label": "A B"}, "label: 'A B' is not a name"),
    ({"type": "clear", "label": "../x"}, "label: '../x' is not a name"),
    ({"type": "clear", "label": "a; flush ruleset"}, "is not a name"),
    ({**SET_UP, "device": "eth0; rm"}, "device: 'eth0; rm' is not an interface"),
    ({**SET_UP, "device": "-batch"}, "device"),
    ({**SET_UP, "device": "a\nqdisc del"}, "device"),
    ({**SET_UP, "device": "x" * 16}, "device"),
    ({**SET_UP, "rate_bps": 0}, "rate: 0 bit/s; allowed: 100000 to"),
    ({**SET_UP, "rate_bps": "1Gbit"}, "Expected `int`"),
    ({**SET_UP, "kind": "netem"}, "queues: 'netem' is not known; allowed: htb, prio, ets"),
    ({**SET_UP, "kind": "prio"}, "prio limits no rate"),
    ({**SET_UP, "guaranteed_bps": 10**9}, "guaranteed: must be 0 to 1/8 of the rate"),
    ({**MARK, **ENDS, "flow_class": 8}, "class: 8 is no class; allowed: 0 to 7"),
    ({**MARK, **ENDS, "flow_class": -1}, "class"),
    ({**MARK, **ENDS, "flow_class": True}, "Expected `int`"),
    ({**MARK, **ENDS, "job": "j }"}, "job: 'j }' is not a name"),
    ({**MARK, "endpoints": []}, "endpoints: 0; allowed: 1 to 64"),
    ({**MARK, "endpoints": [{}]}, "neither address nor ports"),
    ({**MARK, "endpoints": [{"address": "10.0.0.0/8"}]}, "address: '10.0.0.0/8' is not"),
    ({**MARK, "endpoints": [{"address": "fe80::1%eth0"}]}, "address"),
    ({**MARK, "endpoints": [{"address": "0.0.0.0"}]}, "not the address of one host"),
    ({**MARK, "endpoints": [{"ports": [[0, 1]]}]}, "port: 0-1; allowed: 1 to 65535"),
    ({**MARK, "endpoints": [{"ports": [[9, 8]]}]}, "port: 9-8"),
    ({**MARK, "endpoints": [{"ports": [[1, 65536]]}]}, "port"),
    ({**MARK, "endpoints": [{"ports": [[1, 1]] * 257}]}, "257 ranges; allowed: 256"),
    ({"type": "list", "label": "a" * 70_000}, "longer than 65536 bytes"),
]


class Recorded:
    """In place of the rules: what reaches them."""

    def __init__(self) -> None:
        self.served: list[FlowRequest] = []

    def serve(self, request: FlowRequest) -> dict[str, Any]:
        self.served.append(request)
        return {}


@pytest.mark.parametrize(("request_", "told"), BAD)
def test_what_is_not_allowed_is_refused_in_one_line_and_reaches_no_rule(
    request_: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, Any]] = []
    monkeypatch.setattr(helper, "_answer", answers.append)
    line = request_ if isinstance(request_, str) else json.dumps(request_)
    rules = Recorded()
    helper._serve(rules, io.BytesIO(line.encode() + b"\n"))  # type: ignore[arg-type]
    assert rules.served == []
    (answer,) = answers
    assert answer["wrong_input"] is True
    assert told in answer["error"]
    assert "\n" not in answer["error"]


def test_without_the_right_to_set_rules_the_helper_refuses_in_one_line(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nCapEff:\t0000000000001000\n")
    helper._check_rights(status)
    for text in ("CapEff:\t0000000000000000\n", ""):
        status.write_text(text)
        with pytest.raises(SpecError, match="flow: needs root: try sudo"):
            helper._check_rights(status)


def test_what_is_allowed_reaches_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper, "_answer", lambda _: None)
    lines = "\n".join(json.dumps(one) for one in (SET_UP, {**MARK, **ENDS}))
    rules = Recorded()
    helper._serve(rules, io.BytesIO(lines.encode()))  # type: ignore[arg-type]
    ends = (Endpoint("10.0.0.1", ((1, 2),)),)
    assert rules.served == [
        SetUpQueues(label="a", device="eth0", rate_bps=10**9),
        MarkFlows(label="a", job="j", flow_class=1, endpoints=ends),
    ]


def test_a_mark_names_both_directions_with_the_code_point_of_the_class() -> None:
    asked = decoded(json.dumps({**MARK, **ENDS, "flow_class": 3}).encode())
    assert isinstance(asked, MarkFlows)
    rules = [line for line in marks(asked).splitlines() if line.startswith("add rule")]
    point = f"ip dscp set {CODE_POINTS[3]} "
    assert len(rules) == 2
    assert all(point in line for line in rules)
    assert "ip saddr 10.0.0.1 meta l4proto { tcp, udp } th sport { 1-2 }" in rules[0]
    assert "ip daddr 10.0.0.1 meta l4proto { tcp, udp } th dport { 1-2 }" in rules[1]


def test_a_mark_may_hang_on_where_a_packet_goes_and_its_queue_on_this_host_alone() -> None:
    peers = [
        {"address": "10.0.0.9", "flow_class": 2},
        {"address": "fd00::9", "flow_class": 1},
    ]
    more = {"flow_class": 3, "queue": 5, "peers": peers}
    asked = decoded(json.dumps({**MARK, **ENDS, **more}).encode())
    assert isinstance(asked, MarkFlows)
    lines = marks(asked).splitlines()
    (by_peer,) = (line for line in lines if "ip daddr 10.0.0.9 ip saddr 10.0.0.1 meta" in line)
    assert f"th sport {{ 1-2 }} ip dscp set {CODE_POINTS[2]} " in by_peer
    # What comes later stands; an address of the other version of IP matches nothing here.
    by_job = [at for at, line in enumerate(lines) if f"dscp set {CODE_POINTS[3]} " in line]
    assert lines.index(by_peer) > max(by_job)
    assert not any("fd00" in line for line in lines)
    queued = [line for line in lines if "meta priority set" in line]
    assert len(queued) == 2
    assert all("queue_j oifname @queues" in line for line in queued)
    assert all(line.endswith("meta priority set 5741:6") for line in queued)


def test_each_class_has_the_queue_of_its_number_on_every_kind_of_queues() -> None:
    htb = SetUpQueues(label="a", device="eth0", rate_bps=10**9)
    pairs = ", ".join(f"{CODE_POINTS[c]} : 5741:{c + 1}" for c in range(8))
    assert pairs in queue_table(htb)
    for c in range(8):
        (line,) = (x for x in queue_lines(htb) if f"classid 5741:{c + 1} " in x)
        assert line.endswith(f"prio {c}")
    for kind in ("prio", "ets"):
        (line,) = queue_lines(SetUpQueues(label="a", device="eth0", kind=kind))
        assert f"root handle 5741: {kind}" in line


def test_on_switches_class_0_is_marked_and_what_is_not_marked_goes_last() -> None:
    """Strict queues of a switch by the upper three bits: the greatest goes first."""
    assert CODE_POINTS[0] == 0
    points = code_points_of("switch")
    assert [point >> 3 for point in points] == [7, 6, 5, 4, 3, 2, 1, 0]
    ask = {**MARK, **ENDS, "flow_class": 0, "code_points": points}
    marked = decoded(json.dumps(ask).encode())
    assert isinstance(marked, MarkFlows)
    assert "ip dscp set 56 " in marks(marked)


def test_a_table_of_code_points_may_be_stated_and_classes_may_share_one() -> None:
    points = code_points_of("40,32,24,16,8,8,8,0")
    assert points == (40, 32, 24, 16, 8, 8, 8, 0)
    htb = SetUpQueues(label="a", device="eth0", rate_bps=10**9, code_points=points)
    # nft takes each once; of classes that share one the first says the queue.
    told = "40 : 5741:1, 32 : 5741:2, 24 : 5741:3, 16 : 5741:4, 8 : 5741:5, 0 : 5741:8"
    assert f"map {{ {told} }}" in queue_table(htb)
    for text in (
        "",
        "fast",
        "1,2,3",
        "40,32,24,16,8,8,8,64",
        "40,32,24,16,8,8,8,-1",
        "٣,1,1,1,1,1,1,1",
    ):
        with pytest.raises(SpecError, match=r"--code-points: .*; allowed: testbed, switch, or 8"):
            code_points_of(text)
    with pytest.raises(SpecError, match="code-points"):
        decoded(json.dumps({**MARK, **ENDS, "code_points": [1, 2]}).encode())


def test_ranges_that_meet_become_one() -> None:
    assert merged([(5, 9), (1, 2), (3, 3), (8, 12), (20, 20)]) == [(1, 3), (5, 12), (20, 20)]


def test_ports_are_read_as_typed() -> None:
    assert ports_of("29500, 29510-29520") == ((29500, 29500), (29510, 29520))
    for wrong in ("", "1,,2", "a", "1-2-3", "-1", "٣"):
        with pytest.raises(SpecError, match="is no port"):
            ports_of(wrong)
