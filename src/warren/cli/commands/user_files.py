"""``warren schema`` and ``warren hosts``: the form of users' files, and one to begin with."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import Json, examples, one_command
from warren.cli.streams import answers_alone, print_json
from warren.cli.views.yaml_answer import answer_yaml
from warren.model.errors import Problem, SpecError

schema_app: Final = one_command()
hosts_app: Final = one_command()
SUBMIT: Final = "submit"
"""Kind of the files that ``warren submit`` reads; its schema is made of the options."""


@schema_app.command(epilog=examples("warren schema job > job.schema.json"))
@answers_alone()
def schema(
    kind: Annotated[
        str, typer.Argument(metavar="job|cluster|run|testbed|submit", help="Kind of file.")
    ],
    json_: Annotated[
        bool, typer.Option("--json", help="No effect: this command always prints JSON.")
    ] = False,
) -> None:
    """Print the JSON Schema of a kind of file."""
    # ``json_`` is taken because every command has it; a schema is JSON in any case.
    # Imported here: schemas need pydantic, which takes long to load.
    from warren.cli.service.job_file import job_file_schema
    from warren.workload.specs.json_schema import KINDS, json_schema

    if kind not in (*KINDS, SUBMIT):
        allowed = ", ".join((*KINDS, SUBMIT))
        raise SpecError(
            Problem(file="schema", message=f"unknown kind {kind!r}; allowed: {allowed}")
        )
    print_json(job_file_schema() if kind == SUBMIT else json_schema(kind))


@hosts_app.command(
    epilog=examples(
        "warren hosts 10.0.0.1:6379 --out cluster.yaml",
        "warren hosts 10.77.0.1:6379 --testbed lab",
    )
)
@answers_alone()
def hosts(
    address: Annotated[
        str,
        typer.Argument(
            metavar="HOST:PORT", help="Address of the head of the Ray cluster.", show_default=False
        ),
    ],
    testbed: Annotated[
        str | None,
        typer.Option("--testbed", metavar="NAME", help="Testbed in which the cluster is."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write to this file. Default: standard output."),
    ] = None,
    json_: Json = False,
) -> None:
    """Write a cluster file from the nodes of a Ray cluster.

    Each node is a host, with a device for each processor that Ray may use there. Edit the file as
    you like: leave nodes out, name devices by type, state links.
    """
    # Imported here, as for ``schema``: its imports take long to load.
    from warren.runs.studies.ray_hosts import ray_hosts

    answer_yaml(ray_hosts(address, testbed), out, json_)
