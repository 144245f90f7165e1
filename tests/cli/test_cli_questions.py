"""Policies of four questions: named, listed, refused where nothing carries out their answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_runs import QUICKSTART, Warren

from warren.model.cluster import Local
from warren.model.decision import Question
from warren.model.errors import SpecError
from warren.model.run import Run, Scheduler
from warren.policy.protocol import answers
from warren.runs.choose_policy import TimedPolicies, choose_all
from warren.runs.compose import PreparedRun
from warren.runs.inputs import renamed, run_of

FOREIGN = """
from warren.model.decision import NOTHING, Question
from warren.model.events import JobArrived


class Flow:
    name, source, offline, needs_rounds = "mine", "test", False, False
    answers = frozenset({Question.FLOW})
    triggers = frozenset({JobArrived})

    def __init__(self, level: int = 1) -> None:
        self.level = level

    def initial(self, view):
        return None

    def decide(self, view, memory):
        return NOTHING, None

    def explain(self, view, memory, job):
        return "as it says"


class Placing(Flow):
    answers = frozenset({Question.FLOW, Question.PLACE})


class Beside(Flow):
    answers = frozenset({Question.FLOW, Question.SHAPE})


class Wrong(Flow):
    answers = {"flow"}
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A file of policies of the user's."""
    (tmp_path / "mine.py").write_text(FOREIGN)
    return f"{tmp_path}/mine.py"


def scheduled(**fields: Any) -> Run:
    """The quickstart, scheduled so."""
    run = run_of(str(QUICKSTART), None, (), history=False)
    return replace(run, scheduler=Scheduler(**fields))


def refusal(**fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        choose_all(scheduled(**fields))
    (problem,) = caught.value.problems
    return str(problem)


def test_without_other_policies_there_is_no_object_for_them() -> None:
    assert choose_all(scheduled(place="srtf")).others == ()


def test_policies_are_chosen_by_name_and_from_files_with_their_options(mine: str) -> None:
    chosen = choose_all(
        scheduled(
            place="srtf", flow=f"{mine}:Flow", shape="fixed", group="fixed",
            other_options={"flow": {"level": 4}},
        )
    )  # fmt: skip
    assert chosen.place.name == "srtf"
    by_question = {min(answers(one)): one for one in chosen.others}
    assert by_question.keys() == {Question.SHAPE, Question.GROUP, Question.FLOW}
    assert by_question[Question.FLOW].level == 4  # type: ignore[attr-defined]
    timed = TimedPolicies(chosen)
    assert [answers(one) for one in timed.others] == [answers(one) for one in chosen.others]
    assert timed.decide_s == 0


def test_a_joint_policy_places_or_stands_beside_one_that_does(mine: str) -> None:
    placing = choose_all(scheduled(place=f"{mine}:Placing", joint=f"{mine}:Placing"))
    assert answers(placing.place) == {Question.FLOW, Question.PLACE}
    assert placing.others == ()
    beside = choose_all(scheduled(place="srtf", joint=f"{mine}:Beside"))
    assert beside.place.name == "srtf"
    assert [answers(one) for one in beside.others] == [{Question.FLOW, Question.SHAPE}]


def test_names_that_do_not_go_together_are_refused_in_one_line(mine: str) -> None:
    said = refusal(place="srtf", flow=f"{mine}:Placing")
    assert "scheduler.flow" in said
    assert "answers flow, place; name it as joint" in said
    assert "answers flow; name it for flow" in refusal(place=f"{mine}:Flow")
    assert "answers flow alone; name it for that" in refusal(place="srtf", joint=f"{mine}:Flow")
    both = refusal(place="srtf", joint=f"{mine}:Beside", flow="fixed")
    assert "scheduler.flow: is answered by joint" in both
    assert "is answered by joint" in refusal(place="srtf", joint=f"{mine}:Placing")
    none = refusal(place=f"{mine}:Beside", joint=f"{mine}:Beside")
    assert "does not place tasks; name a place policy beside it" in none
    assert "is not a flow policy: answers must be" in refusal(flow=f"{mine}:Wrong")
    assert "flow: unknown policy 'fixt'; did you mean fixed? allowed: baraat" in refusal(
        flow="fixt"
    )
    options = refusal(place="srtf", other_options={"flow": {"a": 1}})
    assert options == "policy: flow: fair has no options, got a"
    unknown = refusal(flow=f"{mine}:Flow", other_options={"flow": {"colour": 1}})
    assert unknown.startswith("policy: flow.colour: ")


def test_a_run_that_asks_for_more_than_its_world_carries_is_refused(mine: str) -> None:
    for world, questions in (("sim", ("flow", "shape")), ("live", ("flow",))):
        for question in questions:
            prepared = PreparedRun(run=scheduled(**{question: "fixed"}), world=world)
            with pytest.raises(SpecError, match=f"scheduler.{question}: a .* cannot carry out ans"):
                prepared.check()
    joint = PreparedRun(run=scheduled(place=f"{mine}:Placing", joint=f"{mine}:Placing"))
    with pytest.raises(SpecError, match=r"scheduler.joint: .* answers to flow yet"):
        joint.check()


def test_groups_are_carried_out_in_either_world() -> None:
    for world in ("sim", "live"):
        PreparedRun(run=scheduled(group="fixed"), world=world).check()


def test_a_live_run_carries_out_shapes_and_where_there_are_links_classes() -> None:
    PreparedRun(run=scheduled(shape="fixed"), world="live").check()
    run = scheduled(flow="fixed")
    with pytest.raises(SpecError, match=r"live run without local.testbed cannot carry out answ"):
        PreparedRun(run=run, world="live").check()
    linked = replace(run, cluster=replace(run.cluster, local=Local(testbed="bed")))
    PreparedRun(run=linked, world="live").check()


def test_names_of_the_command_line_replace_those_of_the_file() -> None:
    before = scheduled(place="srtf", flow="x", options={"a": 1}, other_options={"flow": {"b": 2}})
    assert renamed(before, {}) == before
    other = renamed(before, {"flow": "y"}).scheduler
    assert (other.flow, dict(other.other_options), other.options) == ("y", {}, {"a": 1})
    same = renamed(before, {"flow": "x"}).scheduler
    assert same.other_options == {"flow": {"b": 2}}
    meant = renamed(before, {"flow": "y"}, {"policy.flow.b": "2"}).scheduler
    assert meant.other_options == {"flow": {"b": 2}}
    for whole in ("policy", "policy.flow"):
        assert renamed(before, {"flow": "y"}, {whole: "{...}"}).scheduler == meant
    apart = renamed(before, {"place": "hare"}, {"policy.flow.b": "2"}).scheduler
    assert (apart.options, apart.other_options) == ({}, {"flow": {"b": 2}})
    kept = renamed(before, {"place": "hare"}, {"policy.a": "1"}).scheduler
    assert kept.options == {"a": 1}
    joint = renamed(before, {"joint": "z"}).scheduler
    assert (joint.place, joint.joint, joint.options) == ("z", "z", {})
    again = replace(before, scheduler=joint)
    assert renamed(again, {"place": "hare"}).scheduler.joint is None
    both = renamed(before, {"place": "hare", "joint": "z"}).scheduler
    assert (both.place, both.joint) == ("hare", "z")


def test_the_command_refuses_and_lists_them(warren: Warren, mine: str, tmp_path: Path) -> None:
    for options in (["--flow", "fixed"], ["--joint", f"{mine}:Placing"]):
        for command in (["simulate"], ["simulate", "--dry-run"], ["run", "--dry-run"]):
            found = warren(*command, QUICKSTART, *options)
            assert found.code == 2
            assert len(found.err) == 1
            assert "cannot carry out answers to flow " in found.err[0]
            assert ": they would change nothing; allowed: flow: fair" in found.err[0]
    done = warren("simulate", QUICKSTART, "--flow", "fixed", "--out", tmp_path / "out")
    assert done.code == 2
    assert not (tmp_path / "out").exists()
    resumed = warren("run", "--resume", tmp_path, "--shape", "fixed")
    assert "leave out --shape" in resumed.err[0]


def test_policies_are_listed_by_question(warren: Warren) -> None:
    rows = warren("policies", "--json").json
    assert next(row["question"] for row in rows) == "place"
    assert {row["question"] for row in rows} == {"place", "flow", "group", "shape", "joint"}
    flow = warren("policies", "--question", "flow", "--json").json
    assert [(row["name"], row["kind"]) for row in flow] == [
        ("fair", "baseline"),
        ("baraat", "online"),
        ("fixed", "online"),
        ("intensity", "online"),
        ("maif", "online"),
        ("shift", "online"),
        ("sincronia", "online"),
        ("turns", "online"),
    ]
    joint = warren("policies", "--question", "joint", "--json").json
    assert [row["name"] for row in joint] == ["harmony", "harmony-published", "isolated"]
    assert (
        "allowed: place, flow, group, shape, joint" in warren("policies", "--question", "x").err[0]
    )
    assert "of several questions; allowed: flow, group, shape" in warren("policies", "fixed").err[0]
    one = warren("policies", "fixed", "--question", "shape", "--json").json
    assert "Before time starts" in one["text"]
