"""``warren check --resume`` over small commands: it runs, stops, kills and resumes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from warren.model.errors import SpecError
from warren.serve.certificate import verdict
from warren.serve.certificate.certificate import CertificateCheck
from warren.serve.certificate.command_run import CommandRun
from warren.serve.certificate.report import Certificate
from warren.serve.certificate.saves import PlannedStop

pytestmark = pytest.mark.live

LOOP = """
import os, pickle, signal, sys, time
path = os.path.join(os.environ["WARREN_CHECKPOINT_DIR"], "state.pkl")
value, step = 1.0, 0
if os.path.exists(path):
    value, step = pickle.load(open(path, "rb"))
def save():
    with open(path + ".part", "wb") as file:
        pickle.dump((value, step), file)
    os.rename(path + ".part", path)
SETUP
while step < 12:
    value, step = value * 1.5 + step, step + 1
    time.sleep(0.04)
    if WHEN:
        save()
        time.sleep(0.15)
save()
"""
TRAIN = """
import os, torch
path = os.path.join(os.environ["WARREN_CHECKPOINT_DIR"], "last.pt")
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
step = 0
if os.path.exists(path):
    kept = torch.load(path)
    net.load_state_dict(kept["net"])
    opt.load_state_dict(kept["opt"])
    step = kept["step"]
while step < 12:
    x = torch.ones(2, 4) * step
    opt.zero_grad()
    net(x).square().sum().backward()
    opt.step()
    step += 1
    if step % 3 == 0:
        kept = {"net": net.state_dict(), "opt": opt.state_dict(), "step": step}
        torch.save(kept, path + ".part")
        os.rename(path + ".part", path)
"""

COUNTED = """
import os, torch
path = os.path.join(os.environ["WARREN_CHECKPOINT_DIR"], "last.pt")
torch.manual_seed(1)
net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
step = count = skip = 0
if os.path.exists(path):
    kept = torch.load(path)
    net.load_state_dict(kept["net"])
    step, skip = kept["step"], kept["count"]
for number in range(skip, 99):
    if step == 12:
        break
    opt.zero_grad()
    net(torch.full((2, 4), 0.1 * number)).square().sum().backward()
    opt.step()
    step, count = step + 1, count + 1
    if step % 3 == 0:
        torch.save({"net": net.state_dict(), "step": step, "count": count}, path + ".part")
        os.rename(path + ".part", path)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for scripts; temporary folders of the check are in it, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def certificate(folder: Path, script: str, **options: Any) -> Certificate:
    path = folder / "script.py"
    path.write_text(script)
    found = CertificateCheck([sys.executable, str(path)], **options).run()
    assert not list(folder.glob("warren-check-*"))
    return found


def loop(when: str = "step % 3 == 0", setup: str = "") -> str:
    return LOOP.replace("WHEN", when).replace("SETUP", setup)


def levels(found: Certificate) -> tuple[str | None, str | None]:
    assert found.by_signal is not None
    assert found.by_kill is not None
    return found.by_signal.level, found.by_kill.level


def test_a_command_that_saves_and_loads_all_is_exact(folder: Path) -> None:
    found = certificate(folder, loop(), stops=1)
    assert (found.level, levels(found)) == ("exact", ("exact", "exact"))
    assert found.likely_cause is None


def test_a_command_that_saves_only_on_sigterm_loses_by_sigkill(folder: Path) -> None:
    asked = "signal.signal(signal.SIGTERM, lambda *_: (save(), sys.exit(0)))"
    found = certificate(folder, loop("False", asked), stops=1)
    assert levels(found) == ("exact", "loses")
    assert found.likely_cause is not None
    assert "no save" in found.likely_cause


def test_a_command_that_ignores_the_signal_is_killed_within_its_run(folder: Path) -> None:
    ignored = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    found = certificate(folder, loop(setup=ignored), stops=1)
    assert levels(found) == ("exact", "exact")
    assert any("goes on" in line for line in found.notes)


def test_two_whole_runs_that_differ_give_no_level(folder: Path) -> None:
    clock = loop().replace("value, step = 1.0, 0", "value, step = [time.time()] * 60, 0")
    found = certificate(folder, clock.replace("value * 1.5 + step", "value"), stops=1)
    assert found.level is None
    assert found.stops == []
    assert found.likely_cause is not None


def test_the_steps_of_a_training_script_tell_why_it_differs(folder: Path) -> None:
    found = certificate(folder, TRAIN, stops=1, signum=signal.SIGKILL)
    assert (found.level, found.steps, found.saves) == ("restarts", 12, 4)
    assert found.likely_cause is not None
    assert "RNG not restored (torch)" in found.likely_cause
    assert found.first_difference is not None
    began = found.stops[0].began
    assert began is not None
    assert found.first_difference["tensor"] == "net.0.weight"
    assert found.first_difference["step"] == began + 1


def test_a_second_stop_shows_a_place_that_is_counted_from_the_resume(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(COUNTED)
    check = CertificateCheck([sys.executable, str(script)])
    check._base = folder
    ended = check._whole("whole run")
    whole = ended.result(check._read([ended.checkpoints])[0])
    stop = check._try_stop(whole, "kill", PlannedStop(5, False, 0.0, again=4))
    assert stop is not None
    assert (stop.steps, stop.newest) == (7, (6,))
    assert stop.place == "between saves, and again after the resume"
    judgement = verdict.judged(whole, stop)
    assert (judgement.level, judgement.began) == ("restarts", 6)
    assert [cause.kind for cause in judgement.causes] == ["data order"]


def test_processes_that_left_the_session_are_gone_before_the_resume(folder: Path) -> None:
    script, pid = folder / "script.py", folder / "pid"
    script.write_text(
        "import os, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        open({str(pid)!r}, 'w').write(f'{{os.getpid()}}\\n')\n        time.sleep(60)\n"
        "    os._exit(0)\nos.wait()\ntime.sleep(60)\n"
    )
    (folder / "checkpoints").mkdir()
    command = [sys.executable, str(script)]
    with CommandRun(command, folder / "checkpoints", folder / "run", {}) as run:
        assert not run.wait(60, lambda: pid.exists() and pid.read_text().endswith("\n"))
        assert int(pid.read_text()) in run.processes()
    assert not _lives(int(pid.read_text()))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["no-such-program"], "no program"),
        ([sys.executable, "-c", "raise SystemExit('out of luck')"], "out of luck"),
    ],
)
def test_a_command_that_cannot_run_whole_is_one_line(
    folder: Path, command: list[str], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        CertificateCheck(command).run()
    assert not list(folder.glob("warren-check-*"))


def test_the_command_prints_one_object_and_keeps_what_is_asked(folder: Path) -> None:
    (folder / "script.py").write_text(loop())
    options = ["--resume", "--json", "--stops", "1", "--signal", "KILL", "--keep", "kept"]
    command = [sys.executable, "-m", "warren", "check", *options, "--", sys.executable, "script.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["level"], found["first_difference"]) == ("exact", None)
    assert found["likely_cause"] is None
    assert "whole run 1 of 2" in done.stderr
    assert list(folder.glob("kept/runs/*/checkpoints/state.pkl"))
    again = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert again.returncode == 2
    assert "not empty" in again.stderr


def test_an_interrupt_ends_all_processes_and_removes_the_folder(folder: Path) -> None:
    script = folder / "script.py"
    script.write_text(
        f"import os, time\nopen({str(folder / 'pid')!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "warren", "check", "--resume", "--", sys.executable, script]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as check:
        while not (folder / "pid").exists() or not (folder / "pid").read_text().endswith("\n"):
            assert check.poll() is None
            time.sleep(0.02)
        check.send_signal(signal.SIGINT)
        assert check.wait() == 130
    assert not _lives(int((folder / "pid").read_text()))
    assert not list(folder.glob("warren-check-*"))
