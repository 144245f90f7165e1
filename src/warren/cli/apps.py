"""Are the apps of a run there? Found out by reading their files, never by running them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from warren.cli.files import read
from warren.model.errors import Problem, SpecError
from warren.model.job import Job
from warren.model.run import Run

_FORM: Final = 'allowed: "path/file.py:Class", relative to the file that names it'


def check_apps(run: Run) -> None:
    """Refuse a run that cannot be trained.

    Raises
    ------
    SpecError
        For each job without an app, or whose app's file or class is missing; and for a cluster that
        charges switching, which only simulations do.
    """
    jobs = run.workload.jobs
    without = [job.name for job in jobs if job.app is None]
    problems = []
    if run.cluster.switching is not None:
        message = "is charged in simulations only; allowed in a live run: null"
        problems.append(Problem(file=run.name, field="cluster.switching", message=message))
    if without:
        message = f"no app to train in {', '.join(without[:5])}; such jobs can only be simulated"
        problems.append(Problem(file=run.name, field="workload.jobs", message=message))
    wrong: dict[str, str] = {}
    for job in jobs:
        if job.app is not None and job.app not in wrong:
            wrong[job.app] = _what_is_wrong(job.app, run.base)
            if wrong[job.app]:
                problems.append(_problem(run, job, f"{job.app}: {wrong[job.app]}"))
    if problems:
        raise SpecError(problems)


def app_path(app: str, base: str) -> str:
    """Where the file of an app is looked for."""
    return os.path.normpath(Path(base) / app.rpartition(":")[0])


def _problem(run: Run, job: Job, message: str) -> Problem:
    return Problem(file=job.source or run.name, field=f"job {job.name}: app", message=message)


def _what_is_wrong(app: str, base: str) -> str:
    file, colon, name = app.rpartition(":")
    if not colon or not file.endswith(".py"):
        return f"unknown app; {_FORM}"
    try:
        tree = ast.parse(read(app_path(app, base)))
    except OSError as error:
        return f"cannot be read: {app_path(app, base)}: {error}"
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"is not Python: {getattr(error, 'msg', None) or error}{line}"
    names = list(_top_names(tree))
    if "*" in names or name in names:
        return ""
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return f"has no class {name!r}; it has: {', '.join(classes) or 'none'}"


def _top_names(tree: ast.Module) -> Iterator[str]:
    """Everything bound anywhere outside functions and classes; '*' for what cannot be told."""
    todo: list[ast.AST] = [*tree.body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            continue
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        todo.extend(ast.iter_child_nodes(node))
