"""The texts of a run's apps in its folder: kept when it begins, taken up again when it goes on."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from warren.core.journal_reader import History
from warren.live.training.app.app_imports import SourceReader
from warren.live.training.app.pinned_files import APPS, INDEX, load_pins, pin_files
from warren.model.errors import Problem, SpecError
from warren.model.job import AppSource, Job, Sources
from warren.model.run import Run
from warren.runs.check_apps import app_path, with_apps
from warren.runs.inputs import some_of
from warren.runs.notices import say
from warren.store.files import read, refused

PINNED, NEW = "pinned", "new"
CHOICES: Final = (PINNED, NEW)
"""Texts with which a run goes on: its former ones, or those that are on disk now."""


def text_files(run: Run, out: Path) -> Mapping[str, bytes]:
    """Return the files of its apps' texts that a run's folder lacks; others stay there."""
    if run.sources is None:
        return {}
    # Sets of texts are only added to, never replaced: the journal's records refer to all of them.
    had: list[Sources] = []
    with suppress(SpecError):
        had = load_pins(out / APPS)
    if had and had[-1] == run.sources:
        return {}
    return {f"{APPS}/{name}": data for name, data in pin_files([*had, run.sources]).items()}


def check_choice(app: str) -> None:
    """Refuse a choice of ``--app`` that is none.

    Raises
    ------
    SpecError
        If it is neither ``pinned`` nor ``new``.
    """
    if app not in CHOICES:
        message = f"{app!r} is unknown; allowed: {', '.join(CHOICES)}"
        raise SpecError(Problem(file="run", field="--app", message=message))


def with_kept_apps(path: str, run: Run, history: History | None, app: str) -> Run:
    """Return a run that goes on, with the last texts of its apps, or those on disk now.

    ``path`` is its folder; ``history`` None: it had not begun. A line names files that differ.

    Raises
    ------
    SpecError
        If the texts are damaged or missing, or new ones cannot be read.
    """
    # Apps of jobs that have ended need not be there any more.
    left = unfinished(run, history)
    files = list(dict.fromkeys(job.app_file for job in left))
    if app == NEW:
        kept: Sources = {}
        with suppress(SpecError):
            kept = _kept(Path(path, APPS), run, history) or {}
        fresh = with_apps(replace(run, sources=None), left).sources or {}
        changed = [name for file in files for name in _changed(file, kept.get(file), run.base)]
        say(f"{path}: going on with the apps on disk; {_told(changed) or 'none has changed'}")
        return replace(run, sources={**kept, **fresh})
    known = _kept(Path(path, APPS), run, history)
    if known is None:
        return run
    changed = [name for file in files for name in _changed(file, known.get(file), run.base)]
    if changed:
        way = "going on with the text it began with; `--app new` takes the other one"
        say(f"{path}: {_told(changed)}; {way}")
    return replace(run, sources=known)


def kept_apps(path: str, run: Run, history: History) -> Run:
    """Return a run of which nothing is left, with its apps' texts; without, if they are gone."""
    try:
        return replace(run, sources=_kept(Path(path, APPS), run, history))
    except SpecError:
        return replace(run, sources={})


def unfinished(run: Run, history: History | None) -> Sequence[Job]:
    """Return the jobs that have something left to run."""
    jobs = run.workload.jobs
    if history is None:
        return jobs
    return [job for job in jobs if history.status(job.index) == "unfinished"]


def _kept(folder: Path, run: Run, history: History | None) -> Sources | None:
    """Return the texts that the journal names; None: the run was cut off before it kept any."""
    if history is None and not (folder / INDEX).exists():
        return None
    sets = load_pins(folder)
    if history is None:
        return sets[-1]
    # The folder keeps every set of texts the run ever had; the journal tells which it had last.
    for sources in reversed(sets):
        if replace(run, sources=sources).app_sha256_J == history.app_sha256:
            return sources
    message = "holds no texts of apps with the hashes that the journal names"
    raise refused(folder / INDEX, f"{message}; `--app new` goes on with those on disk")


def _changed(file: str, kept: AppSource | None, base: str) -> Iterator[str]:
    """Yield the files of an app that are not on disk as they were kept, as a job names them."""
    if kept is None:
        return
    now: Mapping[str, str] = {}
    with suppress(OSError):
        now = SourceReader(base, read).app(file).hashes
    folder = Path(app_path(file, base)).resolve().parent
    for path, digest in kept.hashes.items():
        name = posixpath.join(posixpath.dirname(file), path)
        try:
            if hashlib.sha256(read(str(folder / path))).hexdigest() != digest:
                yield name
        except OSError:
            yield f"{name} (gone)"
    # Files that the app imports now and did not import then.
    for path in sorted(now.keys() - kept.hashes.keys()):
        yield f"{posixpath.join(posixpath.dirname(file), path)} (new)"


def _told(changed: Sequence[str]) -> str:
    """Tell which files have changed; empty if none has."""
    names = list(dict.fromkeys(changed))
    return f"changed since the run began: {some_of(names, 5)}" if names else ""
