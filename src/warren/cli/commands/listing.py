"""``warren policies`` and ``warren schema``."""

from __future__ import annotations

import inspect
import sys

from warren.cli.commands.inputs import print_json
from warren.model.errors import Problem, SpecError
from warren.policy.place.registry import POLICIES, place_policy


def policies_command(name: str | None, json_: bool) -> None:
    """List all policies, or print one policy's text."""
    if name is not None:
        text = inspect.getdoc(sys.modules[type(place_policy(name)).__module__]) or ""
        print_json({"name": name, "question": "place", "text": text}) if json_ else print(text)
        return
    rows = [_row(one) for one in sorted(POLICIES)]
    if json_:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']:16} {row['kind']:8} {row['what']}")
        print(f"{'':25} {row['source']}")


def _row(name: str) -> dict[str, str]:
    policy = place_policy(name)
    text = inspect.getdoc(sys.modules[type(policy).__module__]) or ""
    return {
        "name": name,
        "question": "place",
        "kind": "offline" if policy.offline else "online",
        "what": text.splitlines()[0].rstrip("."),
        "source": policy.source,
    }


def schema_command(kind: str) -> None:
    """Print a JSON Schema."""
    if kind not in ("job", "cluster", "run"):
        message = f"unknown kind {kind!r}; allowed: job, cluster, run"
        raise SpecError(Problem(file="schema", message=message))
    from warren.workload.schema import json_schema

    print_json(json_schema(kind))
