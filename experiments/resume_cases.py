"""Is the certificate right? ``warren check --resume`` over commands whose level is known.

The commands of ``../shared/cases/resume`` were measured by another program. The kinds of
``_resume_kinds.py`` and ``_resume_habits.py`` are right or wrong by construction. A row is right if
the level by SIGTERM, the level by SIGKILL and a word of the cause are those stated here. Rows of
commands that are not named stay in the result file.

    python experiments/resume_cases.py [--stops 2] [--seed 0] [--jobs 1] [WORD...]

With words, only commands that hold one of them are checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, NamedTuple

from _common import HERE, RESULTS, ROOT, save

SHARED: Final = ROOT.parent / "shared" / "cases" / "resume"


class Case(NamedTuple):
    """A command, its levels by SIGTERM and SIGKILL, a word of the cause and of the tensor."""

    command: str
    by_signal: str | None
    by_kill: str | None
    cause: str = ""
    tensor: str = ""


_TORCHRUN: Final = "torchrun --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0"
MEASURED: Final = (
    Case("python plain_exact.py", "exact", "exact"),
    Case("python dropout_rng.py", "restarts", "restarts", "RNG", "net.0.weight"),
    Case("python epoch_again.py", "loses", "loses", "twice", "net.0.weight"),
    Case("python adam_fresh.py", "loses", "loses", "optimizer state", "weights."),
    Case("python in_place_save.py", "loses", "loses", "torn"),
    Case("python on_term_only.py", "exact", "loses", "no save but on a signal"),
    Case("python bf16_master.py", "equal order", "equal order", "casts", "net.0.weight"),
    Case("python clock_seed.py", None, None, "clock"),
    Case("python hf_trainer.py", "exact", "exact"),
    Case("python hf_trainer.py --jit", "exact", "exact"),
    Case("python hf_trainer.py --noise", "restarts", "restarts", "changed at random"),
    Case(f"{_TORCHRUN} ddp_two_ranks.py", "restarts", "restarts", "all ranks"),
    Case("python dcp_steps.py", "exact", "exact"),
)
"""Commands of the shared folder, with their measured levels. A torn file needs stops in saves."""
KINDS: Final = (
    Case("exact", "exact", "exact"),
    Case("adam", "exact", "exact"),
    Case("workers", "exact", "exact"),
    Case("closure", "exact", "exact"),
    Case("joblib", "exact", "exact"),
    Case("scaler-kept", "exact", "exact"),
    Case("ignores", "exact", "exact"),
    Case("noise-by-worker", "exact", "exact"),
    Case("scaler-lost", "loses", "loses", "scaler"),
    Case("averages", "loses", "loses", "average"),
    Case("schedule", "loses", "loses", "scheduler"),
    Case("buffers", "loses", "loses", "buffers"),
    Case("rng", "restarts", "restarts", "RNG"),
    Case("global-shuffle", "restarts", "restarts", "data order"),
    Case("epoch-restart", "restarts", "restarts", "data order"),
    Case("half", "equal order", "equal order", "casts"),
    Case("pair", "loses", "loses", "torn"),
)
"""Kinds of ``_resume_kinds.py``, right by construction."""
HABITS: Final = (
    Case("epoch-end", "exact", "exact"),
    Case("no-set-epoch", "exact", "exact"),
    Case("accumulate", "exact", "exact"),
    Case("teacher-saved", "exact", "exact"),
    Case("folder-renamed", "exact", "exact"),
    Case("beside", "exact", "exact"),
    Case("attempt-number", "exact", "exact"),
    Case("named-by-time", "exact", "exact"),
    Case("by-clock", "exact", "exact"),
    Case("within-step", "restarts", "restarts", "from within a step"),
    Case("look-first", "restarts", "restarts", "RNG not restored"),
    Case("epoch-end-global", "restarts", "restarts", "data order"),
    Case("stream", "restarts", "restarts", "data order"),
    Case("numpy-noise", "restarts", "restarts", "numpy"),
    Case("workers-noise", "restarts", "restarts", "changed when read"),
    Case("count-from-resume", "restarts", "restarts", "data order"),
    Case("accumulate-cut", "loses", "loses", "accumulation"),
    Case("teacher", "loses", "loses", "teacher"),
    Case("averaged", "loses", "loses", "average"),
    Case("epoch-rate", "loses", "loses", "scheduler"),
    Case("two-players", "loses", "loses", "optimizer state"),
    Case("two-renames", "loses", "loses", "torn pair"),
    Case("folder-plain", "loses", "loses", "within a save"),
    Case("counter-file", "loses", "loses", "skipped"),
    Case("last-but-one", "loses", "loses", "a checkpoint of step"),
    Case("by-name", "loses", "loses", "a checkpoint of step"),
    Case("hash-order", None, None, "PYTHONHASHSEED"),
)
"""Kinds of ``_resume_habits.py``, right by construction; ``count-from-resume`` with three stops."""


def checked(words: list[str], folder: Path, stops: int, seed: int) -> dict[str, Any]:
    """Run the command and return its JSON."""
    options = ["--stops", str(stops), "--seed", str(seed)]
    command = [sys.executable, "-m", "warren", "check", "--resume", "--json", *options, "--"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "HOME": str(Path.home()), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *words], cwd=folder, stdout=subprocess.PIPE, env=environment, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row_of(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """Lay what was found beside what is true."""
    levels = [(found[key] or {"level": None})["level"] for key in ("by_signal", "by_kill")]
    cause, difference = found["likely_cause"] or "", found["first_difference"]
    right = (
        levels == [case.by_signal, case.by_kill]
        and case.cause in cause
        and bool(cause) == bool(case.cause)
        and (not case.tensor or case.tensor in str(difference))
    )
    return {
        "command": case.command,
        "true": [case.by_signal, case.by_kill],
        "found": levels,
        "right": right,
        "likely_cause": cause or None,
        "first_difference": difference,
        "notes": found["notes"],
        "stops": [
            [one[k] for k in ("by", "place", "step", "began", "level")] for one in found["stops"]
        ],
    }


def chosen(words: list[str]) -> Iterator[tuple[Case, str, Path]]:
    """Yield cases with their commands and folders; those that hold a word, if there are words."""
    kinds, habits = (HERE / name for name in ("_resume_kinds.py", "_resume_habits.py"))
    cases = [
        *((case, case.command, SHARED) for case in MEASURED),
        *((case, f"python {kinds} {case.command}", ROOT) for case in KINDS),
        *((case, f"python {habits} {case.command}", ROOT) for case in HABITS),
    ]
    for case, command, folder in cases:
        if words and not any(word in command.split() for word in words):
            continue
        if not folder.exists():
            print(f"{case.command}: skipped, there is no folder {folder.name}")
        elif "hf_trainer" in command and importlib.util.find_spec("transformers") is None:
            print(f"{case.command}: skipped, transformers is not installed")
        else:
            yield case, command, folder


def main() -> None:
    """Check the commands, print a line each, and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="number of checks at once")
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    path = RESULTS / "resume_cases.json"
    rows = {row["command"]: row for row in json.loads(path.read_text())["rows"]} if (
        path.exists()
    ) else {}  # fmt: skip
    with ThreadPoolExecutor(asked.jobs) as pool:
        checks = {
            pool.submit(checked, command.split(), folder, asked.stops, asked.seed): case
            for case, command, folder in chosen(asked.words)
        }
        for check in as_completed(checks):
            case = checks[check]
            row = rows[case.command] = row_of(case, check.result())
            said = "right" if row["right"] else "WRONG"
            print(f"{case.command}: {said}, {row['found']}, {row['likely_cause']}", flush=True)
            found = [
                rows[one.command] for one in (*MEASURED, *KINDS, *HABITS) if one.command in rows
            ]
            content = {"stops_of_each_kind": asked.stops, "checks_at_once": asked.jobs}
            save("resume_cases", asked.seed, {**content, "rows": found})


if __name__ == "__main__":
    main()
