"""Jobs that a run file does not list: those of a trace, and those that a generator draws."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren.model.costs import ProfileRow
from warren.model.errors import Problem, SpecError
from warren.workload.generators.gavel_mix import gavel_mix
from warren.workload.generators.hare_mix import hare_mix
from warren.workload.generators.inputs import Ground
from warren.workload.generators.sjf_bco import sjf_bco
from warren.workload.specs.workload import (
    GavelMixSpec,
    HareMixSpec,
    SjfBcoSpec,
    TraceSpec,
    WorkloadSpec,
)
from warren.workload.traces.any_table import SEPARATORS
from warren.workload.traces.read_trace import read_trace
from warren.workload.traces.registry import detected
from warren.workload.traces.rows import Trace, TraceRequest
from warren.workload.yaml_document import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """``content`` gives the file that stands at a place of the run file; None: a problem.

    Paths are relative to ``folder``.
    """

    ground: Ground
    folder: str
    content: Callable[[Path, str], bytes | None]

    def of(self, workload: object) -> Trace | None:
        """The jobs of a checked ``workload``; None where a file it names cannot be read.

        Raises
        ------
        SpecError
            If a file is damaged, or nothing can be made of it.
        """
        if isinstance(workload, HareMixSpec):
            return hare_mix(workload, self.ground)
        if isinstance(workload, SjfBcoSpec):
            return sjf_bco(workload, self.ground)
        if isinstance(workload, GavelMixSpec):
            content = self.content((self.ground.field, "throughputs"), workload.throughputs)
            if content is None:
                return None
            return gavel_mix(workload, self.ground, self._joined(workload.throughputs), content)
        assert isinstance(workload, WorkloadSpec)
        return None if workload.trace is None else self._trace(workload.trace)

    def _trace(self, spec: TraceSpec) -> Trace | None:
        at: Path = (self.ground.field, "trace")
        content = self.content((*at, "path"), spec.path)
        table: bytes | None = None
        if spec.throughputs is not None:
            table = self.content((*at, "throughputs"), spec.throughputs)
        if content is None or (table is None and spec.throughputs is not None):
            return None
        file = self._joined(spec.path)
        request = TraceRequest(
            file=file,
            content=content,
            types=self.ground.cluster.type_names,
            run_seed=self.ground.run_seed,
            round_s=spec.round_s,
            limit=spec.limit,
            gpus_max=spec.gpus_max,
            leave_out=tuple(spec.leave_out),
            throughputs_file=self._joined(spec.throughputs or ""),
            throughputs=table,
            throughputs_field=f"{self.ground.field}.trace.throughputs",
            gang=spec.gang,
            models=self._models(spec.models),
            columns=spec.columns,
            units=spec.units,
            delimiter=SEPARATORS[spec.separator],
        )
        name = detected(file, content) if spec.format == "auto" else spec.format
        return read_trace(name, request)

    def _models(self, names: Sequence[str]) -> tuple[ProfileRow, ...]:
        rows = self.ground.rows
        if unknown := [name for name in names if name not in rows]:
            message = f"no profile row {unknown[0]!r}; there are {', '.join(rows)}"
            problem = Problem(
                file=self.ground.file, field=f"{self.ground.field}.trace.models", message=message
            )
            raise SpecError(problem)
        return tuple(rows[name] for name in names)

    def _joined(self, named: str) -> str:
        return posixpath.join(self.folder, named)
