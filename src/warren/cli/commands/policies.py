"""``warren policies``: all policies, one in full, or what one makes of a cluster."""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json
from warren.model.errors import Problem, SpecError
from warren.policy.protocol import AnyPolicy
from warren.policy.registry import POLICIES, place_policy
from warren.runs.choose_policy import foreign, is_foreign
from warren.store.files import read

app: Final = one_command()


@app.command(epilog=examples("warren policies", "warren policies hare"))
def policies(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="All about this one; also FILE.py:Class."),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="CLUSTER",
            help="What NAME makes of a cluster file, for example GPU groups.",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List the policies and where they come from."""

    policies_command(name, explain, json_)


@answers_alone()
def policies_command(name: str | None, explain: str | None, json_: bool) -> None:
    """List all policies, print one policy's text, or what it makes of a cluster."""
    if explain is not None:
        _explain(name, explain, json_)
        return
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


def _explain(name: str | None, path: str, json_: bool) -> None:
    """A policy that prepares something for a cluster says it by its own ``explain_cluster``:
    of the cluster and the costs of every shipped model there, a text."""
    if name is None:
        raise SpecError(Problem(file="--explain", message="needs the NAME of a policy"))
    policy = _policy(name)
    explain_cluster = getattr(policy, "explain_cluster", None)
    if explain_cluster is None:
        message = f"{name} prepares nothing for a cluster; leave out --explain"
        raise SpecError(Problem(file="--explain", message=message))
    from warren.profile.cost_table import model_costs
    from warren.profile.published import DEVICE_TYPES, TABLE
    from warren.workload.run_file import load_cluster

    cluster = load_cluster(path, read)
    costs = model_costs(cluster, tuple(TABLE.values()))
    names = enumerate(cluster.type_names)
    idle = [name for column, name in names if not costs.fits_JT[:, column].any()]
    if idle:
        allowed = ", ".join(DEVICE_TYPES)
        message = f"no shipped model runs on {', '.join(idle)}; there are times for: {allowed}"
        raise SpecError(Problem(file=path, field="device_types", message=message))
    try:
        text = explain_cluster(cluster, costs)
    except ValueError as error:
        raise SpecError(Problem(file=path, message=f"{name}: {error}")) from None
    if json_:
        print_json({"name": name, "cluster": path, "text": text})
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
    """What, Source and Differs: of the class where one file has several, else of its file."""
    own = inspect.getdoc(policy) or ""
    if "\nSource\n" in own:
        return own
    return inspect.getdoc(sys.modules[type(policy).__module__]) or own


def _row(name: str, policy: AnyPolicy) -> dict[str, str]:
    what = _text(policy).partition("\n\n")[0]
    return {
        "name": name,
        "question": "place",
        "kind": "offline" if policy.offline else "online",
        "what": " ".join(what.split()).rstrip("."),
        "source": policy.source,
    }
