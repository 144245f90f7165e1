"""In a network of its own the helper makes rules, takes all of them away, and touches no others."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from processes import wait_until

from warren.live.enforcement.client import FlowHelper
from warren.live.enforcement.requests import Endpoint, ListFlows, MarkFlows, PeerClass, SetUpQueues
from warren.live.testbed.iproute import check_usable
from warren.model.errors import SpecError

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "flow_rules.py"
NETWORK = f"warren-rules-{os.getpid()}"
FOREIGN = "table ip mine {\n\tchain own {\n\t}\n}\n"
QUEUES = SetUpQueues(label="t", device="dm0", rate_bps=10**8)
MARK = MarkFlows(
    label="t", job="j", flow_class=2, endpoints=(Endpoint("10.1.1.1", ((1000, 2000),)),)
)

_SENT = re.compile(r"class htb 5741:(\d) .*\n Sent (\d+) bytes")

Run = Callable[..., str]


def _check_made_here() -> None:
    try:
        check_usable()
    except SpecError as error:
        pytest.skip(f"{error}")
    if not shutil.which("nft"):
        pytest.skip("the command nft is not here; it comes with nftables")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A command inside a network with an interface and a table of somebody else's."""
    _check_made_here()

    def run(*command: str, text: str = "") -> str:
        done = subprocess.run(
            ["ip", "netns", "exec", NETWORK, *command],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    subprocess.run(["ip", "netns", "add", NETWORK], check=True)
    try:
        run("ip", "link", "add", "dm0", "type", "veth", "peer", "name", "dm1")
        run("nft", "-f", "-", text=FOREIGN)
        # The helper is started in this network.
        real = subprocess.Popen
        monkeypatch.setattr(
            "warren.live.enforcement.client.subprocess.Popen",
            lambda command, **rest: real(["ip", "netns", "exec", NETWORK, *command], **rest),
        )
        yield run
    finally:
        subprocess.run(["ip", "netns", "del", NETWORK], check=True)


def _dump(run: Run) -> tuple[str, str, str]:
    return (
        run("nft", "list", "ruleset"),
        run("tc", "qdisc", "show"),
        run("tc", "class", "show", "dev", "dm0"),
    )


@pytest.mark.live
def test_whatever_ends_the_helper_or_who_asked_it_nothing_stays(network: Run) -> None:
    before = _dump(network)
    assert "table ip mine" in before[0]
    with FlowHelper("t") as helper:
        helper.ask(QUEUES)
        standing = helper.ask(MARK)
        assert standing == {"label": "t", "devices": ["dm0"], "jobs": {"j": 2}}
        made = _dump(network)
        helper.ask(QUEUES)
        helper.ask(MARK)
        assert _dump(network)[0] == made[0]  # asked twice, it stands once
        with pytest.raises(SpecError, match="in use by another process"):
            FlowHelper("t")
        with FlowHelper("t", reads=True) as reader:
            assert reader.ask(ListFlows(label="t")) == standing
    assert _dump(network) == before

    # The helper is killed: what it left is found, and removed by the next.
    killed = FlowHelper("t")
    killed.ask(QUEUES)
    os.kill(killed.pid, signal.SIGKILL)
    killed.close()
    assert _dump(network) != before
    with FlowHelper("t") as helper:
        helper.ask(MARK)
    assert _dump(network) == before


@pytest.mark.live
def test_a_helper_outlives_who_was_killed_only_to_clean_up(network: Run) -> None:
    before = _dump(network)
    program = (
        "import sys, time\n"
        "from warren.live.enforcement.client import FlowHelper\n"
        "from warren.live.enforcement.requests import decoded\n"
        "helper = FlowHelper('t')\n"
        "helper.ask(decoded(sys.argv[1].encode()))\n"
        "print('made', flush=True)\n"
        "time.sleep(60)\n"
    )

    asked = msgspec.json.encode(QUEUES).decode()
    victim = subprocess.Popen(
        ["ip", "netns", "exec", NETWORK, sys.executable, "-c", program, asked],
        stdout=subprocess.PIPE,
    )
    assert victim.stdout
    assert victim.stdout.readline() == b"made\n"
    victim.kill()
    victim.wait()
    victim.stdout.close()
    assert wait_until(lambda: _dump(network) == before)


@pytest.mark.live
def test_packets_leave_by_the_queue_of_their_jobs_class(network: Run) -> None:
    network("ip", "link", "set", "dm1", "up")
    network("ip", "addr", "add", "10.1.1.1/24", "dev", "dm0")
    network("ip", "link", "set", "dm0", "up")
    network(*["ip", "neigh", "add", "10.1.1.9", "lladdr", "02:00:00:00:00:09", "dev", "dm0"])
    program = (
        "import socket, sys\n"
        "end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "end.bind(('10.1.1.1', int(sys.argv[1])))\n"
        "for _ in range(10): end.sendto(b'x' * 1000, ('10.1.1.9', 9))\n"
    )
    with FlowHelper("t") as helper:
        helper.ask(QUEUES)
        helper.ask(msgspec.structs.replace(MARK, queue=6, peers=(PeerClass("10.1.1.9", 1),)))
        network(sys.executable, "-c", program, "1500")
        shown = network("tc", "-s", "class", "show", "dev", "dm0")
        # The queue is that which is told for this host, whatever the mark.
        assert int(dict(_SENT.findall(shown))["7"]) == 10 * (1000 + 42)
        helper.ask(QUEUES)
        helper.ask(msgspec.structs.replace(MARK, flow_class=5, peers=(PeerClass("10.1.1.9", 2),)))
        for port in (1500, 2500):  # of the job, by where it goes, and of nobody
            network(sys.executable, "-c", program, str(port))
        shown = network("tc", "-s", "class", "show", "dev", "dm0")
    sent = dict(_SENT.findall(shown))
    assert int(sent["3"]) == 10 * (1000 + 42)  # class 2: with headers of UDP, IP and Ethernet
    assert int(sent["1"]) >= 10 * (1000 + 42)
    assert [int(sent[str(i)]) for i in (2, 4, 5, 6, 7, 8)] == [0] * 6


@pytest.mark.live
def test_a_root_queue_of_somebody_else_is_refused_and_stays(network: Run) -> None:
    tbf = "root handle 7: tbf rate 1mbit burst 32k limit 64k"
    network("tc", "qdisc", "add", "dev", "dm0", *tbf.split())
    before = _dump(network)
    with FlowHelper("t") as helper:
        with pytest.raises(SpecError, match=r"dm0 has a root queue that is not Warren's \(tbf 7:"):
            helper.ask(QUEUES)
        with pytest.raises(SpecError, match="there is no interface eth9; there are: "):
            helper.ask(SetUpQueues(label="t", device="eth9", rate_bps=10**8))
        assert _dump(network) == before
    assert _dump(network) == before


@pytest.mark.live
def test_queues_of_another_label_are_refused_and_stay(network: Run) -> None:
    with FlowHelper("t") as helper:
        helper.ask(QUEUES)
        made = _dump(network)
        with (
            FlowHelper("u") as other,
            pytest.raises(SpecError, match="dm0 has queues of the label t"),
        ):
            other.ask(SetUpQueues(label="u", device="dm0", rate_bps=10**8))
        assert _dump(network) == made


@pytest.mark.live
def test_kinds_of_queues_that_the_kernel_lacks_are_reported(network: Run) -> None:
    before = _dump(network)
    with FlowHelper("t") as helper:
        for kind in ("prio", "ets"):
            try:
                helper.ask(SetUpQueues(label="t", device="dm0", kind=kind))
            except SpecError as error:
                told = str(error)
                assert _dump(network)[1:] == before[1:]
                assert told == f"flow: the kernel has no queue {kind}; allowed: htb"
            else:
                assert f"qdisc {kind} 5741:" in network("tc", "qdisc", "show", "dev", "dm0")
    assert _dump(network) == before


@pytest.mark.live
def test_helpers_that_are_struck_leave_nothing_after_a_clear() -> None:
    """One cycle of each way; ``experiments/flow_rules.py`` makes 200."""
    _check_made_here()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--cycles", "4"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 cycles, 0 left something" in done.stdout
