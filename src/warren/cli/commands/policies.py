"""``warren policies``: all policies, one in full, or one's preparation for a cluster."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answer, answers_alone, print_json
from warren.model.errors import Problem, SpecError
from warren.runs.studies.policy_texts import explain_on_cluster, policy_in_full, policy_rows

app: Final = one_command()


@app.command(
    epilog=examples("warren policies", "warren policies --question flow", "warren policies hare")
)
@answers_alone()
def policies(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Describe this policy: a name, or FILE.py:Class. Default: list all.",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="CLUSTER",
            help="Show what NAME prepares for a cluster file, such as GPU groups.",
        ),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            "--question",
            metavar="Q",
            help="List only policies for place, flow, group or shape, or for several (joint).",
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """List the policies and their sources, or describe one."""
    if explain is not None:
        _explain(name, explain, json_)
        return
    if name is not None:
        _show_one(name, question, json_)
        return
    rows = policy_rows(question)
    if json_:
        print_json(rows)
        return
    # Two lines a policy: the second has only its source, below the description.
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        answer(f"{row['question']:5}  {row['name']:{width}}  {row['kind']:8}  {row['what']}")
        answer(f"{'':5}  {'':{width}}  {'':8}  source: {row['source']}")


def _show_one(name: str, question: str | None, json_: bool) -> None:
    """Print all about one policy."""
    found = policy_in_full(name, question)
    if json_:
        print_json(found)
    else:
        answer(found["text"])


def _explain(name: str | None, path: str, json_: bool) -> None:
    """Print a policy's preparation for a cluster file."""
    if name is None:
        raise SpecError(Problem(file="--explain", message="needs the NAME of a policy"))
    text = explain_on_cluster(name, path)
    if json_:
        print_json({"name": name, "cluster": path, "text": text})
    else:
        answer(text)
