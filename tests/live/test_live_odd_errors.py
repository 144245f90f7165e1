"""Whatever an app raises is reported, in one line that every file and terminal takes."""

from __future__ import annotations

from pathlib import Path

import odd_errors
import pytest
from live_worlds import drive, ended, of, shuffled, virtual
from odd_errors import ERRORS, PHOTO, Bare, TextRaises

from warren.cli.errors import end_of
from warren.live.control.local_engine import LivePort
from warren.live.control.plain_engine import PlainPort
from warren.live.server.process import last_words
from warren.live.training.app.app_errors import print_traceback, reason_of, way_there
from warren.live.transport.messages import DECODER, ENCODER, JobBroke
from warren.model.errors import InfeasibleDecision, Problem, SpecError
from warren.model.events import JobFailed, RoundsDone
from warren.model.job import Evaluate, Job


def raised(which: str) -> BaseException:
    try:
        ERRORS[which][0]()
    except BaseException as error:
        return error
    raise AssertionError(which)


@pytest.mark.parametrize("which", ERRORS)
def test_any_error_is_reported_in_one_short_printable_line_with_its_place(which: str) -> None:
    error, begins = raised(which), ERRORS[which][1]
    line = reason_of(error)
    assert line.startswith(begins)
    assert "(odd_errors.py:" in line
    assert len(line) < 600
    assert line.isprintable()
    assert DECODER.decode(ENCODER.encode(JobBroke(0, line))) == JobBroke(0, line)


@pytest.mark.parametrize("which", ERRORS)
def test_any_traceback_is_printed_and_is_not_larger_than_a_log(
    which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    error = raised(which)
    print_traceback(error)
    text = capfd.readouterr().err
    assert "odd_errors.py" in text
    assert len(text) < 5_000_000
    assert "odd_errors.py" in way_there(error)
    assert len(way_there(error)) < 100_000


@pytest.mark.parametrize("which", ERRORS)
def test_a_command_ends_with_one_line_whatever_was_raised(
    which: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    end_of(raised(which))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("warren: ")
    assert lines[0].isprintable()


def test_a_folder_whose_name_is_not_utf_8_is_refused_by_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        ENCODER.encode(JobBroke(0, f"/data/{PHOTO}"))
    assert end_of(caught.value) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"warren: /data/bild-\udce9.png: the name is not UTF-8; rename")


def test_a_policy_s_error_is_reported_although_its_cause_has_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    refused = InfeasibleDecision("policy 'x': decide raised")
    refused.__cause__ = TextRaises()
    assert end_of(refused) == 1


def test_a_problem_is_one_printable_line() -> None:
    problem = Problem(file="a\x1b[1m.yaml", field="x", message="is\n\udce9")
    assert str(SpecError(problem)) == r"a\x1b[1m.yaml: x: is \udce9"


def test_an_error_of_the_app_that_looks_like_a_full_disk_fails_its_job_alone() -> None:
    from warren.live.process.specs import ServerRole

    job = Job(index=3, name="j", scale=1, rounds=1, batch=1, seed=0)
    where = {"folder": "", "base": "", "log": "", "tmp": "", "store": "/s", "params": "/p"}
    role = ServerRole(job=job, part=0, homes=(0,), generation=0, round=0, **where)
    for error in (OSError("a", TextRaises(), "/s/x"), OSError(28, "full", TextRaises()), Bare()):
        assert isinstance(last_words(role, "its server", error), JobBroke)


@pytest.mark.live
@pytest.mark.parametrize("engine", [LivePort, PlainPort])
def test_jobs_fail_with_the_reason_whatever_they_raise_and_wherever(
    engine: type, tmp_path: Path
) -> None:
    (tmp_path / "apps.py").write_text(Path(odd_errors.__file__).read_text())
    few = ("surrogate", "text raises", "name raises", "exit", "bare", "ring")
    jobs = [
        Job(
            index=index, name=f"j{index}", app="apps.py:Odd", params={"which": which, "where": at},
            scale=1, rounds=1, batch=8, seed=0, evaluate=Evaluate(every=1),
        )
        for index, (which, at) in enumerate([(w, a) for w in few for a in ("loss", "evaluate")])
    ]  # fmt: skip
    fine = Job(
        index=len(jobs), name="fine", app="apps.py:Odd", params={"where": "nowhere"}, scale=1,
        rounds=1, batch=8, seed=0, evaluate=Evaluate(every=1),
    )  # fmt: skip
    run, costs = virtual([*jobs, fine], 2, str(tmp_path))
    what = (run, costs) if engine is LivePort else (run,)
    with engine(*what, tmp_path / "out") as port:
        events = drive(port, shuffled(run, seed=1))
    assert ended(events)[fine.index] == "finished"
    reasons = {event.job: event.reason for event in of(events, JobFailed)}
    for one in jobs:
        assert ERRORS[str(one.params["which"])][1] in reasons[one.index]
    metrics = [event.metrics for event in of(events, RoundsDone, fine.index)]
    assert metrics == [((r"accbild-\udce9.png\x1b[1m", 1.0),)]
