"""A testbed that is made: as asked for, left alone, refused, struck and removed without a trace.

``experiments/testbed_kill.py`` makes 100 cycles, of which one test makes the first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from processes import PATIENCE_S, descendants, wait_until, wait_until_gone

from warren.live.testbed import orphans as leftovers
from warren.live.testbed.cpu_quota import cgroup_roots
from warren.live.testbed.lifecycle import make, remove
from warren.live.testbed.link_test import GOODPUT, measure
from warren.live.testbed.names import NAMESPACES, namespace, namespaces
from warren.live.testbed.records import FOLDER
from warren.live.testbed.status import standing
from warren.model.errors import EngineError, SpecError
from warren.model.testbed import Bed, BedHost

pytestmark = [pytest.mark.live, pytest.mark.machine, pytest.mark.usefixtures("can_make_testbeds")]

PROGRAM = Path(__file__).resolve().parents[2] / "experiments" / "testbed_kill.py"
NAME = f"test-{os.getpid()}"


def bed_of(*mbits: int, cpus: float | None = None) -> Bed:
    hosts = (
        BedHost(name=f"h{i}", link_bps=mbit * 10**6, cpus=cpus) for i, mbit in enumerate(mbits)
    )
    return Bed(name=NAME, subnet="10.79.0.0/24", hosts=tuple(hosts))


def told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout


def outside() -> list[object]:
    """What a testbed could change on a machine, outside of its namespaces."""
    quotas = [
        sorted(path.name for path in home.iterdir() if path.is_dir()) for home in cgroup_roots()
    ]
    names = sorted(one for one in os.listdir(NAMESPACES) if one.startswith(f"warren-{NAME}"))
    folders = sorted(leftovers.HOSTS_FILES.glob("*")), sorted(FOLDER.glob(f"*{NAME}*"))
    return [told("ip", "-o", "link"), told("tc", "qdisc", "show"), quotas, names, *folders]


@pytest.fixture(autouse=True)
def _gone_afterwards() -> Iterator[None]:
    yield
    remove(NAME)


def inside(host: int, *command: str) -> subprocess.CompletedProcess[str]:
    where = ["ip", "netns", "exec", namespace(NAME, host)]
    return subprocess.run([*where, *command], capture_output=True, text=True)


def marks(bed: Bed) -> list[tuple[int, int]]:
    """What tells these namespaces and their record from others of the same names."""
    paths = [*(NAMESPACES / name for name in namespaces(bed)), FOLDER / f"{bed.name}.json"]
    return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in paths]


def test_one_that_is_up_is_left_as_it_is_and_down_leaves_nothing() -> None:
    before, bed = outside(), bed_of(200, 200, 200, cpus=0.5 if cgroup_roots() else None)
    assert make(bed).changed
    made = marks(bed)
    assert make(bed) == (False, False)
    assert marks(bed) == made
    assert outside() != before
    assert remove(NAME).changed
    assert outside() == before
    assert not remove(NAME).changed


def test_one_of_another_shape_is_refused_and_stays() -> None:
    bed = bed_of(200, 200)
    make(bed)
    made = marks(bed)
    for other in (bed_of(200, 200, 200), bed_of(200, 100), replace(bed, subnet="10.80.0.0/24")):
        with pytest.raises(SpecError, match=f"another shape; `warren testbed down --name {NAME}`"):
            make(other)
    assert marks(bed) == made


def test_no_link_is_measured_faster_than_it_is() -> None:
    """How near they come hangs on the machine: ``benchmarks/testbed_rates.py`` measures it."""
    bed = bed_of(50, 200, 200)
    make(bed)
    rows = measure(bed, lambda *_: None)
    assert {row.expected_bps for row in rows} == {GOODPUT * 50e6, GOODPUT * 200e6}
    for row in rows:
        assert 0 < row.goodput_bps < 1.1 * row.expected_bps, row


def test_a_link_that_is_not_as_asked_for_is_found() -> None:
    """Changed behind Warren's back, at one end of one link."""
    bed = bed_of(50, 50)
    make(bed)
    shape = "class change dev eth0 parent 1: classid 1:1 htb rate 25mbit burst 16000"
    subprocess.run(["tc", "-n", namespace(NAME, 1), *shape.split()], check=True)
    (found,) = standing(NAME)
    assert found.faults == ("the rate out of h1 is not 50 Mbit/s",)
    rows = {row.flows.flows: row for row in measure(bed, lambda *_: None)}
    assert list(rows) == [((0, 1),), ((1, 0),)]
    assert not rows[(1, 0),].ok
    assert rows[(1, 0),].goodput_bps < 0.55 * rows[(1, 0),].expected_bps
    assert make(bed) == (True, True)
    assert standing(NAME)[0].faults == ()


def test_hosts_know_each_other_by_name_and_nobody_else() -> None:
    make(bed_of(200, 200))
    code = "import socket; print(*map(socket.gethostbyname, ('h0', 'h1', socket.gethostname())))"
    assert inside(1, sys.executable, "-c", code).stdout.split() == [
        "10.79.0.1", "10.79.0.2", "10.79.0.2",
    ]  # fmt: skip
    assert inside(1, "ip", "route").stdout.splitlines() == [
        "10.79.0.0/24 dev eth0 scope link src 10.79.0.2 congctl reno "
    ]


@pytest.mark.skipif(not cgroup_roots(), reason="no cgroup with the cpu controller here")
def test_a_host_gets_its_share_of_the_processors() -> None:
    """Half a second of processor time takes two at a quarter of a processor."""
    make(bed_of(200, 200, cpus=0.25))
    code = (
        "from time import monotonic, process_time\n"
        "begin, end = monotonic(), process_time() + 0.5\n"
        "while process_time() < end: pass\n"
        "print(monotonic() - begin)"
    )
    arguments = ["testbed", "exec", "h1", "--name", NAME, "--", sys.executable, "-c", code]
    took_s = float(told(sys.executable, "-m", "warren", *arguments))
    assert took_s > 1.5


def test_what_runs_in_a_host_is_ended_with_it() -> None:
    make(bed_of(200, 200))
    where = ["ip", "netns", "exec", namespace(NAME, 0), "sleep", "60"]
    with subprocess.Popen(where) as process:
        assert wait_until(lambda: standing(NAME)[0].processes_H[0])
        assert standing(NAME)[0].processes_H == (1, 0)
        assert remove(NAME) == (True, 1)
        assert process.wait(PATIENCE_S) != 0


def test_without_htb_nothing_stays_and_the_kernel_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = outside()
    tc = tmp_path / "tc"
    tc.write_text(
        "#!/bin/sh\necho 'Error: Specified qdisc kind is unknown.' >&2\n"
        "echo 'Command failed -:1' >&2\nexit 1\n"
    )
    tc.chmod(0o755)
    with monkeypatch.context() as without:
        without.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(SpecError, match="HTB in the kernel; `tc qdisc add dev p0"):
            make(bed_of(200, 200))
    assert outside() == before


def test_one_that_is_interrupted_while_it_is_made_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, written = outside(), []
    write_hosts = leftovers.write_hosts

    def interrupted(name: str, text: str) -> None:
        write_hosts(name, text)
        written.append(name)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(leftovers, "write_hosts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(bed_of(200, 200, 200))
    assert outside() == before


def test_a_damaged_record_is_reported_and_down_goes_by_the_names() -> None:
    before = outside()
    make(bed_of(200, 200))
    (FOLDER / f"{NAME}.json").write_text("{")
    with pytest.raises(SpecError, match=f"cannot be read: .*; `warren testbed down --name {NAME}`"):
        make(bed_of(200, 200))
    assert standing(NAME)[0].faults == ("its record cannot be read",)
    assert remove(NAME).changed
    assert outside() == before


def test_down_waits_for_a_command_whose_caller_was_killed(tmp_path: Path) -> None:
    """Else what that command makes afterwards would stay."""
    before, running, ip = outside(), descendants(os.getpid()), shutil.which("ip")
    slow, begun, go_on = (tmp_path / name for name in ("ip", "begun", "go-on"))
    slow.write_text(
        f'#!/bin/sh\ntouch {begun}\nwhile [ ! -e {go_on} ]; do sleep 0.05; done\nexec {ip} "$@"\n'
    )
    slow.chmod(0o755)
    up = ["testbed", "up", "--hosts", "2", "--link", "1Gbit", "--name", NAME]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-m", "warren", *up], env=environment) as process:
        assert wait_until(begun.exists)
        process.kill()
    assert not (NAMESPACES / namespace(NAME, 0)).exists()
    later = threading.Timer(1.0, go_on.touch)
    later.start()
    remove(NAME)
    later.join()
    assert wait_until_gone(running) == []
    assert outside() == before


def test_names_of_a_testbed_without_a_record_are_refused_and_removed_by_down() -> None:
    lost = namespace(NAME, 0)
    subprocess.run(["ip", "netns", "add", lost], check=True)
    with pytest.raises(SpecError, match="there are things with the names of"):
        make(bed_of(200, 200))
    assert [one.record for one in standing(NAME)] == [None]
    assert remove(NAME).changed
    assert not (NAMESPACES / lost).exists()


def test_what_cannot_be_removed_is_reported_and_its_record_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(bed_of(200, 200))
    with monkeypatch.context() as stubborn:
        stubborn.setattr(leftovers, "remove_namespaces", lambda *_: None)
        with pytest.raises(EngineError, match=f"{namespace(NAME, 0)}.* cannot be removed"):
            remove(NAME)
    assert (FOLDER / f"{NAME}.json").exists()


def test_files_that_others_put_beside_a_hosts_file_stay() -> None:
    make(bed_of(200, 200))
    other = leftovers.HOSTS_FILES / namespace(NAME, 0) / "resolv.conf"
    other.write_text("")
    remove(NAME)
    try:
        assert [path.name for path in other.parent.iterdir()] == ["resolv.conf"]
    finally:
        other.unlink()
    assert remove(NAME).changed
    assert not other.parent.exists()


def test_one_that_is_struck_while_it_is_made_or_removed_leaves_nothing() -> None:
    command = [sys.executable, str(PROGRAM), "--cycles", "8", "--within", str(PATIENCE_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 cycles, 0 left something" in done.stdout
