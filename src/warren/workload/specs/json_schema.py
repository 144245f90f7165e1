"""Give the JSON Schema of the user files, for editors and other programs."""

from __future__ import annotations

from typing import Any, Final

from warren.model.errors import Problem, SpecError

KINDS: Final = ("job", "cluster", "run", "testbed")


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a job, cluster, run or testbed file.

    Raises SpecError if ``kind`` is none of these.
    """
    # Imported once a schema is asked for, since that takes long.
    from pydantic import BaseModel

    from warren.workload.specs.cluster import ClusterSpec
    from warren.workload.specs.job import JobSpec
    from warren.workload.specs.run import RunSpec
    from warren.workload.specs.testbed import BedSpec

    specs: dict[str, type[BaseModel]] = {
        "job": JobSpec,
        "cluster": ClusterSpec,
        "run": RunSpec,
        "testbed": BedSpec,
    }
    if kind not in specs:
        raise SpecError(
            Problem(file="schema", message=f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}")
        )
    return specs[kind].model_json_schema()
