"""Schemas that people and editors read."""

from __future__ import annotations

import pytest

from warren.model.errors import SpecError
from warren.workload.specs.json_schema import json_schema
from warren.workload.traces.registry import TRACES


@pytest.mark.parametrize("kind", ["job", "cluster", "run", "testbed"])
def test_a_schema_names_every_field(kind: str) -> None:
    schema = json_schema(kind)
    required = {"job": ["name"], "run": ["cluster", "workload"]}
    assert schema["required"] == required.get(kind, ["hosts"])
    assert schema["additionalProperties"] is False


def test_the_schema_of_a_run_has_traces_and_generators_with_their_options() -> None:
    parts = json_schema("run")["$defs"]
    assert {"gang", "leave_out", "throughputs"} <= set(parts["TraceSpec"]["properties"])
    assert parts["TraceSpec"]["properties"]["format"]["enum"] == ["auto", *TRACES]
    assert {"load", "shares", "batch_factor"} <= set(parts["HareMixSpec"]["properties"])
    assert {"gap", "multi_gpu", "gang"} <= set(parts["GavelMixSpec"]["properties"])
    assert {"heterogeneity", "mix"} <= set(parts["GeneratedHostsSpec"]["properties"])


def test_an_unknown_schema_is_refused() -> None:
    with pytest.raises(SpecError, match="allowed: job, cluster, run"):
        json_schema("jobs")
