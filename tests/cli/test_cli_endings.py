"""However a command ends: one clear line, the right code, no traceback on the terminal."""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from cli_runs import ROUND_ROBIN, Told, Warren

from warren.core.journal import encode
from warren.core.loop import Core
from warren.model.errors import EngineError
from warren.runs.choose_policy import TimedPolicy
from warren.store import signals

TEMPLATE = Path(ROUND_ROBIN.rpartition(":")[0]).read_text()


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracebacks are written here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def policy(folder: Path, old: str, new: str) -> str:
    """The template policy with one place changed."""
    assert old in TEMPLATE
    path = folder / "mine.py"
    path.write_text(TEMPLATE.replace(old, new, 1))
    return f"{path}:RoundRobin"


def traceback_of(told: Told) -> str:
    """The text of the traceback that the one line names."""
    match = re.search(r"\(traceback: (\S+)\)$", told.complaint)
    assert match
    return Path(match[1]).read_text()


def test_an_error_nobody_foresaw_is_one_line_and_its_traceback_a_file(
    warren: Warren, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Core) -> None:
        raise RuntimeError("of two\nlines")

    monkeypatch.setattr(Core, "execute", broken)
    found = warren("simulate", tiny, "--out", tmp_path / "out")
    assert found.code == 1
    assert found.complaint.startswith("internal error: RuntimeError: of two lines (traceback: ")
    assert 'raise RuntimeError("of two\\nlines")' in traceback_of(found)
    assert not (tmp_path / "out").exists()


def test_an_error_that_follows_an_interrupt_is_an_interrupt_with_the_error_in_its_line(
    warren: Warren, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(_: Core) -> None:
        with suppress(KeyboardInterrupt):  # as a library does that an interrupt meets in an import
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("no attribute")

    monkeypatch.setattr(Core, "execute", cut_short)
    found = warren("simulate", tiny, "--out", tmp_path / "out")
    assert (found.code, found.complaint) == (130, "interrupted (AttributeError: no attribute)")
    assert not list(tmp_path.glob("warren-error-*"))


@pytest.mark.parametrize("made", [ImportError, RuntimeError])
def test_an_interrupt_that_is_turned_into_another_error_is_reported_as_an_interrupt(
    warren: Warren,
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: type[Exception],
) -> None:
    """Libraries in C say that they cannot be loaded, and Python that a class cannot name fields."""

    def loads(_: Core) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise made("the C-extensions failed") from error

    monkeypatch.setattr(Core, "execute", loads)
    found = warren("simulate", tiny)
    assert (found.code, found.err[-1]) == (130, "warren: interrupted")
    assert not list(tmp_path.glob("warren-error-*"))


def test_trouble_with_the_engine_is_one_line_and_fails(
    warren: Warren, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Core) -> None:
        raise EngineError("no zygote")

    monkeypatch.setattr(Core, "execute", broken)
    found = warren("simulate", tiny)
    assert (found.code, found.complaint) == (1, "no zygote")


@pytest.mark.parametrize("what", ["initial", "decide"])
@pytest.mark.parametrize("raised", ["ValueError('boom')", "SystemExit(0)", "KeyError(1)"])
def test_a_policy_that_raises_is_named_in_one_line(
    warren: Warren, tiny: str, tmp_path: Path, what: str, raised: str
) -> None:
    first = {"initial": "return 0", "decide": "assign: list[Assignment] = []"}[what]
    place = policy(tmp_path, first, f"raise {raised}")
    found = warren("simulate", tiny, "--place", place, "--out", tmp_path / "out")
    assert found.code == 1
    assert found.complaint.startswith(f"policy round-robin: {what} raised ")
    assert f"raise {raised}" in traceback_of(found)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("return Decision(assign=tuple(assign)), memory", "return None", "returns (Decision, "),
        ("assign=tuple(assign)", "assign=assign", "assign is a tuple"),
        ("Assignment(device, ", "Assignment(device + 0.0, ", "whole numbers"),
        ("Assignment(device, ", "Assignment(99, ", "there is no device 99"),
        ("assign=tuple(assign)", "assign=()", "left 3 job(s) waiting for ever"),
        ("assign=tuple(assign)", "plan=3", "plan is a Plan"),
        ("assign=tuple(assign)", "wake_ns=1.5", "whole nanoseconds"),
    ],
)
def test_an_answer_the_core_cannot_read_is_reported_in_one_line(
    warren: Warren, tiny: str, tmp_path: Path, old: str, new: str, told: str
) -> None:
    found = warren("simulate", tiny, "--place", policy(tmp_path, old, new))
    assert found.code == 1
    assert "policy round-robin" in found.complaint
    assert told in found.complaint


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("import annotations", "import annotations, oh no", "cannot be imported: SyntaxError"),
        ("    def decide", "    def answer", "decide must be a method"),
        ('name: ClassVar[str] = "round-robin"', "", "name must be a str"),
        ("offline: ClassVar[bool] = False", "offline: ClassVar[int] = 1", "offline must be a bool"),
        ("{JobArrived, ", "{3, ", "triggers must be event types"),
        ("class RoundRobin", "class Other", "has no class 'RoundRobin'"),
        (
            "from dataclasses",
            "raise SystemExit\nfrom dataclasses",
            "cannot be imported: SystemExit",
        ),
    ],
)
def test_a_file_that_holds_no_policy_is_wrong_input(
    warren: Warren, tiny: str, tmp_path: Path, old: str, new: str, told: str
) -> None:
    found = warren("simulate", tiny, "--place", policy(tmp_path, old, new))
    assert found.code == 2
    assert told in found.complaint


def test_a_policys_options_are_checked(warren: Warren, tiny: str) -> None:
    here = ["simulate", tiny, "--place", ROUND_ROBIN, "--set"]
    assert warren(*here, "policy={skip_slow: true}").code == 0
    assert "skip_fast" in warren(*here, "policy={skip_fast: true}").complaint


def test_a_policys_file_is_found_from_here_and_else_from_the_run_file(
    warren: Warren, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = Path(tiny).parent / "mine.py"
    inside.write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    assert warren("simulate", tiny, "--place", "mine.py:RoundRobin").code == 0
    (tmp_path / "mine.py").write_text(TEMPLATE.replace("class RoundRobin", "class Nearer"))
    assert warren("simulate", tiny, "--place", "mine.py:Nearer").code == 0
    assert warren("simulate", tiny, "--place", "mine.py:RoundRobin").code == 2


@pytest.mark.parametrize("signum", signals.SIGNALS)
@pytest.mark.parametrize("when", ["first step", "last table"])
def test_an_interrupted_simulation_leaves_nothing_and_exits_with_130(
    warren: Warren,
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    signum: signal.Signals,
    when: str,
) -> None:
    def told(*_: object) -> bytes:
        os.kill(os.getpid(), signum)
        os.kill(os.getpid(), signal.SIGINT)  # an impatient user: dropped
        raise AssertionError("not reached")

    where = {"first step": "core.loop.encode", "last table": "runs.compose.result_files"}[when]
    monkeypatch.setattr(f"warren.{where}", told)
    before = signal.getsignal(signum)
    found = warren("simulate", tiny, "--out", tmp_path / "out")
    assert (found.code, found.out, found.complaint) == (130, "", "interrupted")
    assert not (tmp_path / "out").exists()
    assert signal.getsignal(signum) is before


def test_a_live_run_on_a_device_type_that_is_not_here_is_refused_with_the_way_out(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    cluster = Path(tiny).with_name("cluster.yaml")
    cluster.write_text(cluster.read_text().replace("emulate: {time_scale: 0.001}\n", ""))
    found = warren("run", tiny, "--out", tmp_path / "out")
    assert (found.code, found.out) == (2, "")
    assert "this machine has no V100, K80; allowed: CPU, " in found.complaint
    assert "emulate: {time_scale: 1}" in found.complaint
    assert not (tmp_path / "out").exists()


def test_a_signal_lost_on_its_way_is_noticed_at_the_next_step(
    warren: Warren, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0

    def lossy(record: object) -> bytes:
        nonlocal steps
        steps += 1
        if steps == 3:
            with suppress(KeyboardInterrupt):  # as the interpreter does inside a destructor
                os.kill(os.getpid(), signal.SIGINT)
        return encode(record)  # type: ignore[arg-type]

    monkeypatch.setattr("warren.core.loop.encode", lossy)
    assert warren("simulate", tiny).code == 130
    assert steps == 3


def test_a_held_signal_is_taken_when_the_block_is_over() -> None:
    reached: list[str] = []
    with signals.interruptible(), pytest.raises(KeyboardInterrupt):
        _hold(reached)
    assert reached == ["inner", "outer"]


def test_a_signal_that_ended_one_block_ends_nothing_that_runs_after_it() -> None:
    with pytest.raises(KeyboardInterrupt), signals.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    signals.raise_if_told()
    with signals.held():
        pass


def _hold(reached: list[str]) -> None:
    with signals.held():
        with signals.held():
            os.kill(os.getpid(), signal.SIGTERM)
            reached.append("inner")
        reached.append("outer")
    raise AssertionError("not reached")


def test_a_signal_that_was_swallowed_on_its_way_ends_a_run_before_it_plans() -> None:
    asked: list[str] = []

    class Policy:
        name = source = "never asked"
        offline = needs_rounds = False
        triggers: frozenset[type] = frozenset()

        def initial(self, view: object) -> None:
            asked.append("initial")

    with signals.interruptible():
        with suppress(KeyboardInterrupt):  # as the interpreter does in a callback
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            TimedPolicy(cast("Any", Policy())).initial(cast("Any", None))
    assert not asked
