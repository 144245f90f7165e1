"""Requests: what is refused, with which line; arrays, sweeps, keys, dependencies, rights."""

from __future__ import annotations

from typing import Any

import pytest
from queue_tools import (
    ANA,
    BEN,
    ROOT,
    add,
    add_array,
    apply,
    end,
    machine,
    made,
    reason,
    refused,
    service,
    start,
    state,
)

from warren.serve.queue import requests
from warren.serve.queue.state import Queue
from warren.serve.queue.submissions import ARRAY_MOST
from warren.serve.queue.views import row, shown
from warren.serve.records.events import JobSubmitted
from warren.serve.records.jobs import Dependency, Submission
from warren.serve.records.users import Quota, User


@pytest.mark.parametrize(
    ("spec", "kind", "text"),
    [
        ({"command": ()}, "wrong", "command: is empty"),
        ({"command": ("",)}, "wrong", "command: is empty"),
        ({"command": ("a\0b",)}, "wrong", "command: holds a zero byte"),
        ({"command": ("x" * 200_000,)}, "wrong", "command: is longer than"),
        ({"folder": "here"}, "wrong", "folder: 'here' is not an absolute path"),
        ({"folder": "/a\nb\0"}, "wrong", "folder: '/a\\nb\\x00' is not"),
        ({"environment": {"A=B": "1"}}, "wrong", "environment: 'A=B' is not"),
        ({"environment": {"A": "x\0"}}, "wrong", "environment: 'A' is not"),
        ({"devices": 0}, "wrong", "devices: 0 is less than 1"),
        ({"time_limit_s": 0.0}, "wrong", "time limit: 0 s is not above 0"),
        ({"time_limit_s": float("nan")}, "wrong", "time limit: nan s"),
        ({"memory_bytes": 0}, "wrong", "memory: 0 bytes"),
        ({"priority": 1001}, "wrong", "priority: 1001 is not between -1,000 and 1,000"),
        ({"retries": -1}, "wrong", "retries: -1 is not between"),
        ({"grace_s": -1.0}, "wrong", "grace: -1 s is not between"),
        ({"name": "12"}, "wrong", "name: '12' looks like the id of a job"),
        ({"name": "a b"}, "wrong", "name: 'a b' may hold"),
        ({"key": ""}, "wrong", "key: must have"),
        ({"after": (Dependency("99"),)}, "unknown", "after: job '99' is unknown"),
        ({"device_type": "V100"}, "never", "device of type 'V100'; known: H100, gpu"),
        ({"devices": 3}, "never", "needs 3 devices on one host; the largest host has 2"),
        ({"host": "h9"}, "never", "host 'h9' is unknown; known: h1, h2"),
        ({"host": "h2", "devices": 2}, "never", "host h2 has 1"),
        ({"memory_bytes": 65}, "never", "needs 65 bytes of memory"),
    ],
)
def test_a_wrong_submission_is_refused_in_one_line_and_changes_nothing(
    spec: dict[str, Any], kind: str, text: str
) -> None:
    queue = service(machine("h1", "H100", "H100"), machine("h2", "H100"))
    good = Submission(made())
    before = queue.version
    line = refused(kind, lambda: requests.submit(queue, [good, Submission(made(**spec))], ANA, 0))
    assert line.startswith(text) or text in line
    assert (queue.version, len(queue.jobs)) == (before, 0)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"array": (2, 1)}, "array: 2-1 is not a range"),
        ({"array": (-1, 1)}, "array: -1-1 is not a range"),
        ({"array": (0, ARRAY_MOST)}, "array: has 10,001 jobs; 10,000 are allowed"),
        ({"array": (0, 1), "sweep": {"lr": ("1",)}}, "an array or a sweep, not both"),
        ({"sweep": {}}, "sweep: names no value"),
        ({"sweep": {"lr": ()}}, "sweep: lr has no values"),
        ({"sweep": {"lr": ("1",)}}, "sweep: the command does not hold {lr}"),
        ({"sweep": {"index": ("1",)}}, "sweep: 'index' is not a name"),
        ({"sweep": {"a b": ("1",)}}, "sweep: 'a b' is not a name"),
        ({"sweep": {"x": tuple("0123456789" * 11), "y": ("1",) * 100}}, "more than 10,000"),
    ],
)
def test_a_wrong_array_or_sweep_is_refused_in_one_line(more: dict[str, Any], text: str) -> None:
    spec = made(command=("run", "{x}{y}"))
    made_ = Submission(spec, **more)
    assert text in refused("wrong", lambda: requests.submit(Queue(), [made_], ANA, 0))


def test_before_any_host_is_known_any_need_waits_for_one() -> None:
    queue = Queue()
    job = add(queue, devices=64, device_type="B300")
    assert reason(queue, job).code == "host"


def test_an_array_has_a_job_for_each_index_and_its_id_names_them_all() -> None:
    queue = service(machine("h1", "H100"))
    add(queue)
    assert add_array(queue, 3, 5, command=("run", "{index}", "{other}")) == ("2_3", "2_4", "2_5")
    assert queue.jobs["2_4"].spec.command == ("run", "4", "{other}")
    assert queue.ids("2") == ["2_3", "2_4", "2_5"]
    apply(queue, requests.cancel(queue, ["2"], ANA, 0))
    assert [state(queue, one) for one in queue.ids("2")] == ["cancelled"] * 3
    assert add(queue) == "3"


def test_a_sweep_has_a_job_for_each_combination_and_values_are_not_filled_again() -> None:
    spec = made(command=("run", "--lr={lr}", "{seed}{index}{x}"))
    sweep = {"lr": ("1", "{seed}"), "seed": ("7", "8")}
    events = requests.submit(Queue(), [Submission(spec, sweep=sweep)], ANA, 0).events
    commands = [one.spec.command[1:] for one in events if isinstance(one, JobSubmitted)]
    assert commands == [
        ("--lr=1", "70{x}"),
        ("--lr=1", "81{x}"),
        ("--lr={seed}", "72{x}"),
        ("--lr={seed}", "83{x}"),
    ]


def test_a_key_that_was_used_is_answered_with_the_first_ids() -> None:
    queue = Queue()
    first = Submission(made(key="k"), array=(0, 1))
    submitted = requests.submit(queue, [first, first], ANA, 0)
    assert submitted.answers == [("1", ("1_0", "1_1"))] * 2
    apply(queue, submitted.events)
    again = requests.submit(queue, [Submission(made(key="k"))], ANA, 0)
    assert again == ([], [("1", ("1_0", "1_1"))])
    assert requests.submit(queue, [first], BEN, 0).answers[0].id == "2"


def test_a_key_answers_before_the_rest_of_a_submission_is_looked_at() -> None:
    """A script that runs again after a host was removed gets its ids all the same."""
    queue = service(machine("h1", "H100"))
    job = add(queue, key="k", device_type="H100")
    again = Submission(made(key="k", device_type="gone"))
    assert requests.submit(queue, [again], ANA, 0).answers[0].id == job


def test_a_type_is_found_in_any_case() -> None:
    queue = service(machine("h1", "H100"))
    assert queue.jobs[add(queue, device_type="h100")].spec.device_type == "H100"


def test_a_job_waits_for_another_to_finish_and_fails_with_it() -> None:
    queue = service(machine("h1", "H100"))
    first = add(queue)
    ok = add(queue, after=(Dependency(first),))
    then = add(queue, after=(Dependency(ok),))
    either = add(queue, after=(Dependency(first, "any"),))
    assert reason(queue, ok) == ("dependency", "job 1 is to finish; it is queued")
    start(queue)
    end(queue, first, exit_code=3)
    assert (state(queue, ok), queue.jobs[ok].reason) == ("failed", "dependency: job 1 failed")
    assert (state(queue, then), queue.jobs[then].reason) == ("failed", "dependency: job 2 failed")
    assert list(start(queue)) == [either]


def test_a_job_that_depends_on_a_failed_one_fails_at_once() -> None:
    queue = service(machine("h1", "H100"))
    first = add(queue)
    apply(queue, requests.cancel(queue, [first], ANA, 0))
    second = add(queue, after=(Dependency(first),), name="b")
    assert queue.jobs[second].reason == "dependency: job 1 was cancelled"
    one = Submission(made(after=(Dependency(first),), name="c"))
    two = Submission(made(after=(Dependency("c"),)))
    apply(queue, requests.submit(queue, [one, two], ANA, 0).events)
    assert [str(job.state) for job in queue.jobs.values()][2:] == ["failed", "failed"]


def test_a_held_job_fails_too_when_its_dependency_cannot_hold() -> None:
    queue = service(machine("h1", "H100"))
    first = add(queue)
    second = add(queue, after=(Dependency(first),), held=True)
    apply(queue, requests.cancel(queue, [first], ANA, 0))
    assert state(queue, second) == "failed"


def test_a_dependency_on_an_array_waits_for_all_of_it() -> None:
    queue = service(machine("h1", "H100", "H100"))
    first, second = add_array(queue, 0, 1)
    after = add(queue, after=(Dependency("1"),))
    both = add(queue, after=(Dependency("1", "any"),))
    start(queue)
    end(queue, first)
    assert reason(queue, after) == ("dependency", "array 1 is to finish; 1 of 2 jobs have not")
    assert not start(queue)
    end(queue, second, exit_code=1)
    assert queue.jobs[after].reason == "dependency: job 1_1 failed"
    assert list(start(queue)) == [both]


def test_a_name_means_the_own_jobs_of_that_name_that_have_not_ended_or_else_the_last() -> None:
    queue = service(machine("h1", "H100"))
    old = add(queue, name="prep")
    start(queue)
    end(queue, old, exit_code=1)
    new = add(queue, name="prep")
    add(queue, BEN, name="prep")
    waits = add(queue, after=(Dependency("prep"),))
    assert queue.jobs[waits].spec.after == (Dependency(new),)
    apply(queue, requests.cancel(queue, ["prep"], ANA, 0))
    assert [state(queue, one) for one in (new, waits, "3")] == ["cancelled", "failed", "queued"]
    last = add(queue, after=(Dependency("prep", "any"),))
    assert queue.jobs[last].spec.after == (Dependency(new, "any"),)
    text = refused("unknown", lambda: requests.hold(queue, ["prep"], ANA, 0))
    assert text == f"your job 'prep', {new}, has ended"


def test_the_name_of_a_job_of_another_user_is_answered_with_its_id() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, BEN, name="prep")
    text = refused("unknown", lambda: requests.cancel(queue, ["prep"], ANA, 0))
    assert text == f"no job of yours is named 'prep'; ben has one, {job}: name it by its id"
    text = refused("unknown", lambda: requests.cancel(queue, ["prap"], ANA, 0))
    assert text == "job 'prap' is unknown"


def test_a_hold_is_never_lost_and_one_release_is_enough() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, held=True)
    assert not start(queue)
    for _ in range(2):
        apply(queue, requests.hold(queue, [job], ANA, 0))
    apply(queue, requests.set_priority(queue, [job], 5, ANA, 0))
    assert reason(queue, job).code == "held"
    assert row(queue, queue.jobs[job], 0).state == "held"
    apply(queue, requests.release(queue, [job], ANA, 0))
    assert list(start(queue)) == [job]
    assert "is running and cannot be held" in refused(
        "conflict", lambda: requests.hold(queue, [job], ANA, 0)
    )


def test_cancel_ends_a_waiting_job_and_asks_a_running_one_that_keeps_its_devices() -> None:
    queue = service(machine("h1", "H100"))
    running, waiting = add(queue, retries=3), add(queue)
    start(queue)
    apply(queue, requests.cancel(queue, [running, waiting], ANA, 0))
    assert (state(queue, running), state(queue, waiting)) == ("running", "cancelled")
    assert queue.machines["h1"].holders == {"h1/0": {running: False}}
    assert reason(queue, running) == ("", "cancelled by ana; killed on h1 after a grace of 10 s")
    assert requests.cancel(queue, [running, waiting], ANA, 0) == []
    end(queue, running, cause="exit", exit_code=1)
    assert (state(queue, running), queue.jobs[running].reason) == ("cancelled", "cancelled by ana")
    text = refused("conflict", lambda: requests.cancel(queue, [running], ANA, 0))
    assert text == "job 1 is already cancelled and cannot be cancelled"


def test_a_user_changes_own_jobs_alone_and_an_admin_all() -> None:
    queue = service(machine("h1", "H100"))
    job = add(queue, held=True)
    for call in (requests.cancel, requests.hold, requests.release):
        assert refused("forbidden", lambda call=call: call(queue, [job], BEN, 0)) == (  # type: ignore[misc]
            "job 1 belongs to ana"
        )
    refused("forbidden", lambda: requests.set_priority(queue, [job], 1, BEN, 0))
    apply(queue, requests.release(queue, [job], ROOT, 0))
    assert state(queue, job) == "queued"
    for admin in (
        lambda: requests.drain(queue, "h1", None, "", ANA, 0),
        lambda: requests.undrain(queue, "h1", None, ANA, 0),
        lambda: requests.remove_machine(queue, "h1", ANA, 0),
        lambda: requests.set_user(queue, User("eve"), ANA, 0),
        lambda: requests.remove_user(queue, "eve", ANA, 0),
        lambda: requests.set_quota(queue, Quota("each", "any", 1), ANA, 0),
    ):
        assert "only an admin may" in refused("forbidden", admin)


def test_an_environment_is_shown_to_its_owner_and_admins_alone() -> None:
    queue = service(machine("h1", "H100"))
    job = queue.jobs[add(queue, environment={"TOKEN": "secret"})]
    for caller, seen in ((ANA, True), (ROOT, True), (BEN, False)):
        page = shown(queue, job, caller, 0)
        assert (page.environment is not None) == seen
        assert ("secret" in str(page)) == seen


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda q: requests.set_quota(q, Quota("ana", "gpu", 1), ROOT, 0), "subject: 'ana' is not"),
        (lambda q: requests.set_quota(q, Quota("each", "X", 1), ROOT, 0), "type: 'X' is unknown"),
        (lambda q: requests.set_user(q, User("a b"), ROOT, 0), "user: 'a b' may hold"),
        (lambda q: requests.set_user(q, User("a", weight=0), ROOT, 0), "weight: 0 is not above 0"),
        (lambda q: requests.set_user(q, User("a", groups=("",)), ROOT, 0), "group: '' may hold"),
    ],
)
def test_what_an_admin_sets_wrongly_is_refused(call: Any, text: str) -> None:
    queue = service(machine("h1", "H100"))
    assert text in refused("wrong", lambda: call(queue))


def test_jobs_of_one_environment_share_it_in_memory() -> None:
    queue = Queue()
    jobs = [queue.jobs[add(queue, environment={"A": "b" * k})] for k in (1, 1, 2)]
    assert jobs[0].spec.environment is jobs[1].spec.environment
    assert jobs[2].spec.environment == {"A": "bb"}
