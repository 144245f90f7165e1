"""Descriptions of policies: a row of each, one in full, and one's preparation for a cluster."""

from __future__ import annotations

import inspect
import sys
from typing import Final

from warren.model.errors import Problem, SpecError
from warren.policy.protocol import AnyPolicy, takes_new_jobs
from warren.policy.registry import BASELINES, BY_QUESTION, policy_of
from warren.runs.machine import hosts_here
from warren.runs.user_policies.from_file import foreign, is_foreign
from warren.store.files import read


def policy_rows(question: str | None = None) -> list[dict[str, str]]:
    """Describe each shipped policy in a row, by question and name; place first.

    ``new_jobs``: whether it can schedule jobs that were not known when the first one started.
    ``question``: only policies that are named for it; None: all. Raises SpecError if the question
    does not exist.
    """
    _check_question(question)
    rows = []
    for asked in _QUESTIONS if question is None else (question,):
        if asked in BASELINES:
            name, what = BASELINES[asked]
            rows.append(
                {
                    "name": name,
                    "question": asked,
                    "kind": "baseline",
                    "new_jobs": "yes",
                    "what": what,
                    "source": "none: no policy is asked",
                }
            )
        rows += [_row(asked, name, policy_of(asked, name)) for name in sorted(BY_QUESTION[asked])]
    return rows


def policy_in_full(name: str, question: str | None = None) -> dict[str, str]:
    """Describe one policy, shipped or ``FILE.py:Class``: its row, and its file's words as ``text``.

    ``question``: the question it is named for, if several have a policy of this name. Raises
    SpecError if the policy does not exist, or cannot be loaded.
    """
    _check_question(question)
    asked, policy = _policy(name, question)
    return {**_row(asked, name, policy), "text": _text(policy)}


def explain_on_cluster(name: str, path: str) -> str:
    """Describe a policy's preparation for a cluster file, for example its groups of GPUs.

    A policy that prepares something for a cluster describes it in its ``explain_cluster``: a text
    from the cluster and the costs of every shipped model there. Raises SpecError if the policy
    prepares nothing, the cluster file is wrong, or no shipped model has a time on one of its device
    types.
    """
    _, policy = _policy(name)
    explain_cluster = getattr(policy, "explain_cluster", None)
    if explain_cluster is None:
        able = ", ".join(
            one
            for asked in _QUESTIONS
            for one in sorted(BY_QUESTION[asked])
            if hasattr(policy_of(asked, one), "explain_cluster")
        )
        message = f"{name} prepares nothing for a cluster; allowed: {able}"
        raise SpecError(Problem(file="--explain", message=message))
    # Imported here: a list of policies needs no costs.
    from warren.profile.cost_table import model_costs
    from warren.profile.published import DEVICE_TYPES, TABLE
    from warren.workload.run_file import load_cluster

    cluster = load_cluster(path, read, hosts_here)
    costs = model_costs(cluster, tuple(TABLE.values()))
    # A type that no model runs on would have an empty column of times, which nothing follows from.
    names = enumerate(cluster.type_names)
    idle = [name for column, name in names if not costs.fits_JT[:, column].any()]
    if idle:
        allowed = ", ".join(DEVICE_TYPES)
        message = f"no shipped model runs on {', '.join(idle)}; there are times for: {allowed}"
        raise SpecError(Problem(file=path, field="device_types", message=message))
    try:
        text: str = explain_cluster(cluster, costs)
    except ValueError as error:
        raise SpecError(Problem(file=path, message=f"{name}: {error}")) from None
    return text


_QUESTIONS: Final = ("place", "flow", "group", "shape", "joint")


def _check_question(question: str | None) -> None:
    """Refuse a question that is none."""
    if question is not None and question not in _QUESTIONS:
        message = f"unknown question {question!r}; allowed: {', '.join(_QUESTIONS)}"
        raise SpecError(Problem(file="--question", message=message))


def _policy(name: str, question: str | None = None) -> tuple[str, AnyPolicy]:
    """Make the policy of this name, without options; also return its question."""
    if is_foreign(name):
        asked = question or "place"
        return asked, foreign(name, {}, question=asked)
    asked_for = _QUESTIONS if question is None else (question,)
    found = [one for one in asked_for if name in BY_QUESTION[one]]
    if not found:
        known = sorted({one for asked in asked_for for one in BY_QUESTION[asked]})
        message = f"unknown policy {name!r}; allowed: {', '.join(known)}, FILE.py:Class"
        raise SpecError(Problem(file="policies", message=message))
    if len(found) > 1:
        message = f"{name} is a policy of several questions; allowed: {', '.join(found)}"
        raise SpecError(Problem(file="--question", message=message))
    return found[0], policy_of(found[0], name)


def _text(policy: AnyPolicy) -> str:
    """Return What, Source and Differs: of the class if a file has several, else of its file."""
    own = inspect.getdoc(policy) or ""
    # A class with a source of its own shares its file with other policies.
    if "\nSource\n" in own:
        return own
    return inspect.getdoc(sys.modules[type(policy).__module__]) or own


def _row(question: str, name: str, policy: AnyPolicy) -> dict[str, str]:
    """Describe a policy in a row; ``what`` is the first paragraph of its text, in one line."""
    what = _text(policy).partition("\n\n")[0]
    return {
        "name": name,
        "question": question,
        "kind": "offline" if policy.offline else "online",
        "new_jobs": "yes" if takes_new_jobs(policy) else "no",
        "what": " ".join(what.split()).rstrip("."),
        "source": policy.source,
    }
