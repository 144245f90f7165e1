"""The shape that a job should have, and the way to it: as lines for people, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from warren.report.number_text import count
from warren.runs.studies.job_shape import ShapeAdvice
from warren.runs.studies.shape_change import ChangeStep, ShapeChange

_MOST_LINES: Final = 60
"""Most steps of a stage that are listed one by one."""
_PROVED: Final = 1 - 1e-6
"""A bound that is this part of an epoch proves it, for people."""
_CHANGES: Final = {
    "add": ("is added", "are added"),
    "delete": ("is deleted", "are deleted"),
    "switch": ("switches", "switch"),
}


def shape_json(one: ShapeAdvice) -> dict[str, Any]:
    """Return an advice as ``--json`` prints it."""
    shown = {
        "job": one.job,
        "workers": list(one.items),
        "servers": list(one.server_bytes),
        "data": dict(one.items),
        "model": dict(one.server_bytes),
        "epoch_s": one.epoch_s,
        "form": one.form,
        "reading": one.reading,
        "bound_s": one.bound_s,
    }
    return shown if one.change is None else shown | {"plan": _plan_json(one.change)}


def _plan_json(plan: ShapeChange) -> dict[str, Any]:
    """Return a plan; ``after`` and ``stages`` count ``steps`` from 0."""
    moved = {"data": plan.moved("worker"), "model": plan.moved("server")}
    total = {"data": plan.data_blocks, "model": plan.model_blocks}
    return {
        "from": {"workers": list(plan.workers), "servers": list(plan.servers)},
        "moved": {
            what: {"moves": moves, "blocks": blocks, "of": total[what], "bytes": size_bytes}
            for what, (moves, blocks, size_bytes) in moved.items()
        },
        "steps": [_step_json(one) for one in plan.steps],
        "stages": [list(places) for places in plan.stages],
    }


def _step_json(step: ChangeStep) -> dict[str, Any]:
    """Return a step: the fields of all steps, and those of moves."""
    shown: dict[str, Any] = {
        "kind": step.kind,
        "host": step.host,
        "role": step.role,
        "after": list(step.after),
    }
    if step.kind == "move":
        shown |= {"to": step.target, "blocks": step.blocks, "bytes": step.size_bytes}
    return shown


def shape_text(one: ShapeAdvice) -> str:
    """Return an advice as lines for people."""
    working, serving = len(one.items), len(one.server_bytes)
    near = [count for count in (working - 1, working + 1) if count in one.epochs_s]
    others = ", ".join(f"{one.epochs_s[count]:.4g} s with {count}" for count in near)
    lines = [
        f"{one.job}: {working} hosts work and {serving} serve; an epoch takes {one.epoch_s:.4g} s"
        + (f" ({others})" if others else "")
    ]
    if one.bound_s < one.epoch_s * _PROVED:
        lines.append(f"  not proved to be the best; none takes less than {one.bound_s:.4g} s")
    lines += _rows(one, one.items, "works on", "items")
    lines += _rows(one, one.server_bytes, "holds", "bytes")
    return "\n".join(lines + ([] if one.change is None else _plan_lines(one.change)))


def _rows(one: ShapeAdvice, parts: Mapping[str, int], verb: str, unit: str) -> list[str]:
    """Return a line for hosts next to each other that have the same, but for an item or byte."""
    groups: list[list[str]] = []
    last = ""
    for before, name in zip(("", *one.hosts), one.hosts, strict=False):
        if name not in parts:
            continue
        alike = groups and before == last and abs(parts[name] - parts[groups[-1][0]]) <= 1
        groups = [*groups[:-1], [*groups[-1], name]] if alike else [*groups, [name]]
        last = name
    lines = []
    for names in groups:
        low, high = (bound(parts[name] for name in names) for bound in (min, max))
        each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        several = f"{names[0]} to {names[-1]}, {len(names)} hosts, each"
        lines.append(f"  {names[0] if len(names) == 1 else several} {verb} {each} {unit}")
    return lines


def _plan_lines(plan: ShapeChange) -> list[str]:
    """Return a line on all moves, and then each stage of the plan with its steps."""
    moved = [
        f"{blocks} of {of} blocks of {name} move" + ("" if size is None else f" ({size:,} bytes)")
        for name, of, (_, blocks, size) in (
            ("data", plan.data_blocks, plan.moved("worker")),
            ("the model", plan.model_blocks, plan.moved("server")),
        )
    ]
    changes = _counts(plan.steps, *_CHANGES)
    start = f"  from {len(plan.workers)} that work and {len(plan.servers)} that serve: "
    lines = [start + ", ".join([*moved, *changes])]
    for number, places in enumerate(plan.stages, start=1):
        steps = [plan.steps[place] for place in places]
        moves = ", ".join(_counts(steps, "move", *_CHANGES))
        lines.append(f"  {number}. at once: {moves}")
        lines += [f"     {_step_line(step)}" for step in steps[:_MOST_LINES]]
        if len(steps) > _MOST_LINES:
            lines.append(f"     and {len(steps) - _MOST_LINES:,} more, which --json tells")
    return lines


def _counts(steps: Sequence[ChangeStep], *kinds: str) -> list[str]:
    """Return the number of steps of each kind, without kinds that have none."""
    found = {kind: sum(step.kind == kind for step in steps) for kind in kinds}
    return [
        count(number, "move")
        if kind == "move"
        else f"{count(number, 'host')} {_CHANGES[kind][number > 1]}"
        for kind, number in found.items()
        if number
    ]


def _step_line(step: ChangeStep) -> str:
    """Return the action of a host in a step."""
    if step.kind == "move":
        what = "data" if step.role == "worker" else "the model"
        return f"{step.host} to {step.target}: {count(step.blocks, 'block')} of {what}"
    purpose = "work" if step.role == "worker" else "serve"
    return f"{step.host} {_CHANGES[step.kind][0]}" + (
        "" if step.kind == "delete" else f", to {purpose}"
    )
