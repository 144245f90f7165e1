"""``warren schema``: the JSON Schema of a file that users write."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from warren.cli.options import examples, one_command
from warren.cli.streams import answers_alone, print_json

app: Final = one_command()


@app.command(epilog=examples("warren schema job > job.schema.json"))
@answers_alone()
def schema(
    kind: Annotated[str, typer.Argument(metavar="job|cluster|run|testbed", help="Which file.")],
    json_: Annotated[
        bool, typer.Option("--json", help="As always: JSON is all it prints.")
    ] = False,
) -> None:
    """Print the JSON Schema of a file, with or without --json."""
    # ``json_`` is taken because every command has it; a schema is JSON in any case.
    # Imported here: schemas need pydantic, which takes long to load.
    from warren.workload.specs.json_schema import json_schema

    print_json(json_schema(kind))
