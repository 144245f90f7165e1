"""The texts of a run's apps, and whether they are apps: their files are read, never run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from warren.live.training.app.app_imports import SourceReader
from warren.model.errors import Problem, SpecError
from warren.model.job import Job, Sources
from warren.model.run import Run
from warren.store.files import read

_FORM: Final = 'allowed: "path/file.py:Class", relative to the file that names it'


def with_apps(run: Run, jobs: Sequence[Job]) -> Run:
    """Return the run with the texts of these jobs' apps, read once for all later uses.

    A run that has texts is returned unchanged.

    Raises
    ------
    SpecError
        For each app that cannot be read.
    """
    found, unread = _texts(run, jobs)
    problems = [
        _problem(run, job, f"{job.app}: {unread[job.app_file]}")
        for job in jobs
        if job.app is not None and job.app_file in unread
    ]
    if problems:
        raise SpecError(problems)
    return replace(run, sources=found)


def check_apps(run: Run, jobs: Sequence[Job] | None = None) -> Run:
    """Return the run of ``with_apps``, if it can be trained.

    ``jobs``: only these are looked at; None: all.

    Raises
    ------
    SpecError
        For each job without an app, or whose app's file or class is missing; and for a cluster that
        charges switching, which only simulations do.
    """
    jobs = run.workload.jobs if jobs is None else jobs
    without = [job.name for job in jobs if job.app is None]
    problems = []
    if run.cluster.switching is not None:
        message = "is charged in simulations only; allowed in a live run: null"
        problems.append(Problem(file=run.name, field="cluster.switching", message=message))
    if without:
        message = f"no app to train in {', '.join(without[:5])}; such jobs can only be simulated"
        problems.append(Problem(file=run.name, field="workload.jobs", message=message))
    # Many jobs may share an app: it is parsed once, and reported at the first job that names it.
    found, unread = _texts(run, jobs)
    wrong: dict[str, str] = {}
    for job in jobs:
        if job.app is not None and job.app not in wrong:
            wrong[job.app] = _what_is_wrong(job.app, found, unread)
            if wrong[job.app]:
                problems.append(_problem(run, job, f"{job.app}: {wrong[job.app]}"))
    if problems:
        raise SpecError(problems)
    return replace(run, sources=found)


def _texts(run: Run, jobs: Sequence[Job]) -> tuple[Sources, Mapping[str, str]]:
    """Return the texts of apps by file, and by file why some cannot be read.

    A run that has texts keeps them.
    """
    if run.sources is not None:
        return run.sources, {}
    reader = SourceReader(run.base, read)
    found, unread = {}, {}
    for file in dict.fromkeys(job.app_file for job in jobs if _is_named(job.app)):
        try:
            found[file] = reader.app(file)
        except OSError as error:
            unread[file] = f"cannot be read: {app_path(file, run.base)}: {error}"
    return found, unread


def app_path(file: str, base: str) -> str:
    """Return the place where the file of an app is looked for."""
    return os.path.normpath(Path(base) / file)


def absent_note(run: Run) -> str:
    """Return a line for the first job whose app's file is not there; empty if all are."""
    first: dict[str, Job] = {}
    for job in run.workload.jobs:
        if job.app is not None:
            first.setdefault(job.app_file if _is_named(job.app) else job.app, job)
    for file, job in first.items():
        path = app_path(file, run.base)
        if not os.path.isfile(path):
            return f"the app of job {job.name} is not there: {path}; only `warren run` needs it"
        if not _is_named(job.app):
            return f"the app of job {job.name} names no class; `warren run` needs FILE.py:Class"
    return ""


def _problem(run: Run, job: Job, message: str) -> Problem:
    return Problem(file=job.source or run.name, field=f"job {job.name}: app", message=message)


def _is_named(app: str | None) -> bool:
    """Tell whether it has the form ``path/file.py:Class``."""
    return app is not None and app.rpartition(":")[0].endswith(".py")


def _what_is_wrong(app: str, found: Sources, unread: Mapping[str, str]) -> str:
    """Return the fault of an app, as far as its text shows; empty if none."""
    file, _, name = app.rpartition(":")
    if not _is_named(app):
        return f"unknown app; {_FORM}"
    if file in unread:
        return unread[file]
    # Parsed, never imported: an app may do anything when it is imported, and takes seconds to load.
    try:
        tree = ast.parse(found[file].texts[found[file].main])
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f"is not Python: {getattr(error, 'msg', None) or error}{line}"
    # After ``from x import *`` the class may come from anywhere; loading the app will tell.
    names = list(_top_names(tree))
    if "*" in names or name in names:
        return ""
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return f"has no class {name!r}; it has: {', '.join(classes) or 'none'}"


def _top_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that may be bound outside functions and classes; ``*`` if any may be.

    That includes names in branches and loops, and names that are only used.
    """
    # Inside ``if``, ``try`` and the like too: a class may be defined there.
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
