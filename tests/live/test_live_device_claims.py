"""Two runs do not take the same processors or GPUs of a machine unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from live_worlds import job, virtual, world

from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.gpu.discovery import Gpu
from warren.live.process import device_claims
from warren.live.process.device_claims import DeviceClaims, claimed_by_others, devices_held
from warren.model.errors import SpecError

CORES = len(os.sched_getaffinity(0))
HOLD = """
import sys, subprocess
from warren.live.process.device_claims import DeviceClaims
kept = DeviceClaims(int(sys.argv[1]), {}, "/runs/other")
child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""
RACE = """
import sys
from warren.live.process.device_claims import DeviceClaims
from warren.model.errors import SpecError
print("here", flush=True)
sys.stdin.readline()
try:
    kept = DeviceClaims(10_000, {"x": "GPU 0"}, "/runs/one of many")
    print("won", flush=True)
except SpecError:
    print("lost", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of claims of its own."""
    monkeypatch.setenv("WARREN_CLAIMS", str(tmp_path / "claims"))
    return tmp_path / "claims"


def _started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_what_one_run_has_another_is_refused_and_reported_whose_it_is() -> None:
    with closing(DeviceClaims(CORES, {"GPU-1f": "GPU 0 (T4)"}, "/runs/first")):
        with pytest.raises(SpecError) as caught:
            DeviceClaims(1, {"GPU-1f": "GPU 3 (T4)"}, "/runs/second")
        line = str(caught.value)
        assert f"GPU 3 (T4), 1 processor (0 of {CORES} free) cannot be claimed: run /r" in line
        assert f"run /runs/first of {device_claims._user()} (process {os.getpid()}, since" in line
        assert "--share" in line
        with closing(DeviceClaims(1, {"GPU-1f": "GPU 3 (T4)"}, "/runs/second", share=True)):
            pass
        with closing(DeviceClaims(0, {"GPU-2f": "GPU 1 (T4)"}, "/runs/third")):
            pass
    DeviceClaims(CORES, {"GPU-1f": "GPU 0 (T4)"}, "/runs/second").close()


def test_runs_that_fit_together_and_one_with_more_devices_than_processors_are_let_in() -> None:
    DeviceClaims(100 * CORES, {}, "/runs/large").close()
    claims = [DeviceClaims(1, {}, f"/runs/{i}") for i in range(CORES)]
    assert claimed_by_others().count("/runs/") == CORES
    claims.pop().close()
    with pytest.raises(SpecError, match=f"2 processors \\(1 of {CORES} free\\)"):
        DeviceClaims(2, {}, "/runs/more") if CORES > 1 else pytest.skip("one processor")
    # What was refused has kept nothing.
    DeviceClaims(1, {}, "/runs/last").close()
    for one in claims:
        one.close()
    assert claimed_by_others() == ""


def test_a_claim_ends_with_its_process_although_a_child_of_that_lives() -> None:
    with _started(HOLD, str(CORES)) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(SpecError, match="run /runs/other"):
                DeviceClaims(1, {}, "/runs/mine")
            holder.kill()
            holder.wait()
            DeviceClaims(CORES, {}, "/runs/mine").close()
        finally:
            os.kill(child, 9)


def test_of_runs_that_begin_at_once_one_gets_the_devices() -> None:
    racers = [_started(RACE) for _ in range(5)]
    for one in racers:
        assert one.stdout is not None
        assert one.stdout.readline() == "here\n"
    for one in racers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    said = [one.stdout.readline() for one in racers if one.stdout is not None]
    for one in racers:
        one.communicate()
    assert sorted(said) == ["lost\n"] * 4 + ["won\n"]


def _linked(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


def _file(folder: Path) -> None:
    folder.write_text("")


def _pipes(folder: Path) -> None:
    folder.mkdir()
    for name in ("lock", *(f"cpu-{core}" for core in os.sched_getaffinity(0))):
        os.mkfifo(folder / name)


@pytest.mark.parametrize("spoil", [_linked, _file, _pipes])
def test_a_folder_that_is_of_no_use_keeps_no_run_from_its_devices(
    spoil: Callable[[Path], None], folder: Path
) -> None:
    spoil(folder)
    with closing(DeviceClaims(CORES, {}, "/runs/first")):
        DeviceClaims(CORES, {}, "/runs/second").close()


@pytest.mark.parametrize("text", [b"", b"\0", b"\xff\x1b[31m\0a\0b", b"x" * 5000, b"a\0b\0c\0d"])
def test_whatever_is_written_in_a_claim_is_reported_in_one_printable_line(
    text: bytes, folder: Path
) -> None:
    with closing(DeviceClaims(CORES, {}, "/runs/first")):
        for path in folder.glob("cpu-*"):
            path.write_bytes(text)
        with pytest.raises(SpecError) as caught:
            DeviceClaims(1, {}, "/runs/second")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2000


def test_files_are_for_all_users(folder: Path) -> None:
    with closing(DeviceClaims(1, {}, "/runs/first")):
        assert folder.stat().st_mode & 0o7777 == 0o1777
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666}


def test_no_claim_is_made_where_the_variable_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_CLAIMS", "")
    with closing(DeviceClaims(CORES, {}, "/runs/first")):
        DeviceClaims(CORES, {}, "/runs/second").close()


@pytest.mark.parametrize("plain", [False, True])
def test_an_engine_is_refused_before_it_starts_a_process(plain: bool, tmp_path: Path) -> None:
    run, costs = world(tmp_path, [job(0)])
    port: Any = PlainPort(run, tmp_path / "o") if plain else LivePort(run, costs, tmp_path / "o")
    with (
        closing(DeviceClaims(CORES, {}, "/runs/first")),
        pytest.raises(SpecError, match="run /runs/first"),
        port,
    ):
        pass
    port.close()
    # Within what holds its devices an engine claims nothing.
    with devices_held(run, tmp_path), devices_held(run, tmp_path):
        pass


def test_emulated_devices_are_not_claimed_and_pinned_ones_are_by_core(
    tmp_path: Path, folder: Path
) -> None:
    last = max(os.sched_getaffinity(0))
    with closing(DeviceClaims(1, {}, "/runs/first", [last])):
        assert [path.name for path in folder.glob("cpu-*")] == [f"cpu-{last}"]
    emulated, _ = virtual([job(0)], 2, str(tmp_path), scale=0.1)
    with closing(DeviceClaims(CORES, {}, "/runs/first")), devices_held(emulated, tmp_path):
        pass


def test_gpus_are_claimed_by_what_tells_them_from_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = world(tmp_path, [job(0)])
    found = [Gpu(0, "T4", 1, "", "GPU-ab"), Gpu(1, "T4", 1, "")]
    monkeypatch.setattr(device_claims, "gpus_of", lambda devices: found)
    with devices_held(run, tmp_path), pytest.raises(SpecError, match=r"GPU 7 \(T4\) cannot"):
        DeviceClaims(CORES, {"GPU-ab": "GPU 7 (T4)"}, "/runs/second")
