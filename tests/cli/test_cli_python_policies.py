"""A class or an object of Python as a policy: the same schedule as by name, and a name for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_runs import CHECKOUT, JOBS, Warren, write_run

import warren as library
from warren.core.journal import Header
from warren.core.journal_reader import decode
from warren.model.errors import SpecError
from warren.model.view import View
from warren.policy.order import JobOrder
from warren.policy.place.hare.srtf import Srtf
from warren.runs.user_policies.from_file import foreign


class NarrowFirst(JobOrder):
    """Narrow jobs first."""

    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        return sorted(ready, key=lambda job: (view.scale_J[job], view.arrival_ns_J[job]))


@dataclass(frozen=True)
class ByWidth(JobOrder):
    """Narrow or wide jobs first."""

    sign: int = 1

    def order(self, view: View, ready: Sequence[int]) -> list[int]:
        return sorted(ready, key=lambda job: (self.sign * view.scale_J[job], job))


class Unfinished(JobOrder):
    """A policy whose method is not written yet."""


class OtherSrtf(Srtf):
    """The same as srtf, but no class of Warren's."""


def test_a_class_schedules_as_its_name_does_and_summary_journal_and_checks_name_it(
    warren: Warren, tiny: str, tmp_path: Path
) -> None:
    named = library.simulate(tiny, place="srtf", out=tmp_path / "named")
    given = library.simulate(tiny, place=OtherSrtf, out=tmp_path / "given")
    assert [job.row for job in given.jobs.values()] == [job.row for job in named.jobs.values()]
    assert given.summary["scheduler"]["place"] == "python:OtherSrtf"
    header = next(iter(decode((tmp_path / "given" / "journal").read_bytes())))
    assert isinstance(header, Header)
    assert header.place == "python:OtherSrtf"
    assert library.load(tmp_path / "given").summary == given.summary
    assert warren("report", tmp_path / "given", "--check").code == 0


def test_a_comparison_takes_names_classes_and_objects_whose_options_are_in_their_names(
    tiny: str,
) -> None:
    pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
    file = f"{CHECKOUT}/examples/policies/widest_first.py:WidestFirst"
    places = ["fifo,srtf", file, NarrowFirst, ByWidth(), ByWidth(-1)]
    for processes in (1, 2):  # a forked process knows the classes, too
        table = library.compare(tiny, place=places, against=NarrowFirst, processes=processes)
        own = ["python:NarrowFirst", "python:ByWidth", "python:ByWidth(sign=-1)"]
        assert list(table["place"]) == ["fifo", "srtf", file, *own]
        by_place = table.set_index("place")["mean_jct_s"]
        assert by_place[file] == by_place["python:ByWidth(sign=-1)"]
        assert by_place["python:NarrowFirst"] == by_place["python:ByWidth"]
    swept = library.compare(tiny, place=ByWidth, sweep={"policy.sign": [1, -1]})
    assert list(swept["mean_jct_s"]) == [by_place["python:ByWidth"], by_place[file]]


def test_another_question_takes_a_class_and_refuses_one_that_answers_place(tmp_path: Path) -> None:
    name = f"{CHECKOUT}/examples/policies/fewest_rounds_first.py:FewestRoundsFirst"
    flow: Any = type(foreign(name, {}, question="flow"))
    cluster = "hosts: [{name: h, count: 2, devices: {V100: 1}}]\nnetwork: {model: fluid}\n"
    path = write_run(tmp_path, cluster=cluster)
    for policy, name in ((flow, ""), (flow(levels=2), "(levels=2)")):
        found = library.simulate(path, flow=policy).summary["scheduler"]
        assert found["flow"] == f"python:FewestRoundsFirst{name}"
        assert found["place"] == "srtf"
    with pytest.raises(SpecError, match=r"python:NarrowFirst answers place; name it for place"):
        library.simulate(path, flow=NarrowFirst)


FAR = "^place: expected a name, FILE.py:Class, or a policy as a class or object, got "


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (3, FAR + "3; the shortest is"),
        (dict, FAR + "dict; the shortest is"),
        (lambda view, ready: ready, FAR + "<function"),
        (Unfinished, "^place: Unfinished is not a policy: order must be a method$"),
        ("python:Gone", "^python:Gone: place: Gone is a class or object of the Python session"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_a_place_may_be(
    tiny: str, place: Any, text: str
) -> None:
    calls = [lambda: library.simulate(tiny, place=place), lambda: library.run(tiny, place=place)]
    for call in calls:
        with pytest.raises(SpecError, match=text):
            call()


def test_two_policies_of_one_name_and_options_of_an_object_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")
    path = write_run(tmp_path, jobs=JOBS)
    with pytest.raises(SpecError, match=r"^place: two policies would be called ByWidth in the"):
        library.compare(path, place=[ByWidth, ByWidth()])
    with pytest.raises(SpecError, match=r"python:ByWidth\(sign=2\) is an object, which has its"):
        library.compare(path, place=ByWidth(2), override={"policy.sign": 3})


def test_a_name_counts_only_while_the_call_lasts_that_gave_it(warren: Warren, tiny: str) -> None:
    library.simulate(tiny, place=NarrowFirst)
    told = warren("simulate", tiny, "--place", "python:NarrowFirst")
    assert told.code == 2
    assert told.complaint.endswith("or save it in a file and name FILE.py:NarrowFirst")
