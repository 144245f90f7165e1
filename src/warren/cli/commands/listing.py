"""``warren policies`` and ``warren schema``."""

from __future__ import annotations

import inspect
import sys
from typing import Final

from warren.cli.commands.inputs import answer, answers_alone, print_json
from warren.cli.foreign import foreign, is_foreign
from warren.model.errors import Problem, SpecError
from warren.policy.place.registry import POLICIES, place_policy
from warren.policy.protocol import AnyPolicy

KINDS: Final = ("job", "cluster", "run")


@answers_alone()
def policies_command(name: str | None, json_: bool) -> None:
    """List all policies, or print one policy's text."""
    if name is not None:
        _show_one(name, json_)
        return
    rows = [_row(one, place_policy(one)) for one in sorted(POLICIES)]
    if json_:
        print_json(rows)
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        answer(f"{row['name']:{width}}  {row['kind']:7}  {row['what']}")
        answer(f"{'':{width}}  {'':7}  source: {row['source']}")


def _show_one(name: str, json_: bool) -> None:
    policy = _policy(name)
    text = _text(policy)
    if json_:
        print_json({**_row(name, policy), "text": text})
    else:
        answer(text)


def _policy(name: str) -> AnyPolicy:
    if is_foreign(name):
        return foreign(name, {})
    if name not in POLICIES:
        message = f"unknown policy {name!r}; allowed: {', '.join(sorted(POLICIES))}, FILE.py:Class"
        raise SpecError(Problem(file="policies", message=message))
    return place_policy(name)


def _text(policy: AnyPolicy) -> str:
    return inspect.getdoc(sys.modules[type(policy).__module__]) or inspect.getdoc(policy) or ""


def _row(name: str, policy: AnyPolicy) -> dict[str, str]:
    what = _text(policy).partition("\n\n")[0]
    return {
        "name": name,
        "question": "place",
        "kind": "offline" if policy.offline else "online",
        "what": " ".join(what.split()).rstrip("."),
        "source": policy.source,
    }


@answers_alone()
def schema_command(kind: str) -> None:
    """Print a JSON Schema."""
    if kind not in KINDS:
        message = f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}"
        raise SpecError(Problem(file="schema", message=message))
    from warren.workload.schema import json_schema

    print_json(json_schema(kind))
