"""Is the certificate right? ``warren check --resume`` over commands whose level is known.

The commands of ``../shared/cases/resume`` were measured by another program, the kinds of
``_resume_kinds.py`` are wrong or right by construction. A row is right if the level by SIGTERM, the
level by SIGKILL and a word of the cause are those stated here. Rows of commands that are not named
stay in the result file.

    python experiments/resume_cases.py [--stops 2] [--seed 0] [WORD...]

With words, only commands that hold one of them are checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
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
"""Kinds of our own, right by construction."""


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


def main() -> None:
    """Check the commands, print a line each, and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    kinds = [(case, f"python {HERE / '_resume_kinds.py'} {case.command}", ROOT) for case in KINDS]
    known = [(case, case.command, SHARED) for case in MEASURED]
    path = RESULTS / "resume_cases.json"
    rows = {row["command"]: row for row in json.loads(path.read_text())["rows"]} if (
        path.exists()
    ) else {}  # fmt: skip
    for case, command, folder in [*known, *kinds]:
        if asked.words and not any(word in command.split() for word in asked.words):
            continue
        if not folder.exists():
            print(f"{case.command}: skipped, there is no folder {folder.name}")
            continue
        if "hf_trainer" in command and importlib.util.find_spec("transformers") is None:
            print(f"{case.command}: skipped, transformers is not installed")
            continue
        row = row_of(case, checked(command.split(), folder, asked.stops, asked.seed))
        rows[case.command] = row
        print(f"{case.command}: {'right' if row['right'] else 'WRONG'}, {row['found']}", flush=True)
        save("resume_cases", asked.seed, {"stops_of_each_kind": asked.stops, "rows": [
            rows[one.command] for one in (*MEASURED, *KINDS) if one.command in rows
        ]})  # fmt: skip


if __name__ == "__main__":
    main()
