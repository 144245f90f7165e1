"""Take away one rule of safety at a time, and look whether a test notices.

Each mutant is one change to `src/warren/live`: a check left out, or made weaker. The program
copies the checkout to a temporary folder, makes one change there, and runs the test files that
cover that rule. A mutant is `killed` if a test fails, and `survived` if none does. It is `gone` if
the lines that it changes are no longer there: then its row in `MUTANTS` must be mended.

    python experiments/mutants.py             # all; saves results/mutants.json
    python experiments/mutants.py ledger-     # those whose name begins with that

Ends with status 1 if a mutant survived or is gone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import _common

LIMIT_S: Final = 300
"""Time limit of one file of tests, in seconds; a mutant that makes tests hang is killed, too."""
COPIED: Final = ("src", "tests", "examples", "pyproject.toml")
LIVE: Final = "src/warren/live/"


class Mutant(NamedTuple):
    """One change: in ``file`` the text ``before`` becomes ``after``; ``tests`` should notice."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


RULES: Final = "live/test_live_safety_rules.py"
LEASES: Final = "live/test_live_leases.py"
LEASED: Final = "live/test_live_leased_histories.py"
HISTORIES: Final = "live/test_live_histories.py"
CHECKPOINTS: Final = "live/test_live_checkpoint_rules.py"
FILES: Final = "live_training/test_training_checkpoints.py"
STORE: Final = "live_training/test_training_store_rules.py"
MARKS: Final = "live_training/test_training_marklog.py"
SPILLED: Final = "live_training/test_training_spilled_data.py"
SHARES: Final = "live_training/test_training_memory_shares.py"

_HOST_LEASE: Final = "process/leases/host_lease.py"
_GRANTS: Final = "process/leases/lease_grants.py"
_FILES: Final = "training/checkpoints/files.py"
_SCHEDULE: Final = "server/checkpoint_schedule.py"
_SERVER: Final = "server/server.py"
_STORE: Final = "training/parameter_store.py"
_RESULTS: Final = "training/round_results.py"
_LEDGER: Final = "control/ledger.py"
_RECOVERY: Final = "control/recovery.py"
_SERVERS: Final = "control/servers.py"
_SPILLED: Final = "training/input_data/spilled_data.py"

MUTANTS: Final = (
    # Leases of hosts.
    Mutant(
        "lease-from-answer", _HOST_LEASE,
        "until_ns = asked_ns + min(",
        "until_ns = now_ns + min(",
        (LEASES,),
    ),
    Mutant(
        "lease-no-wait-after-resume", _GRANTS,
        "self._free_ns = began_ns + timing.controller_ns if epoch > 1 else began_ns",
        "self._free_ns = began_ns",
        (LEASES,),
    ),
    Mutant(
        "lease-any-question", _HOST_LEASE,
        "elif frame.number == self._number and until_ns > now_ns:",
        "elif until_ns > now_ns:",
        (LEASES,),
    ),
    Mutant(
        "lease-old-question", _GRANTS,
        "if ask.machine != lease.machine or asked < answered:",
        "if ask.machine != lease.machine:",
        (LEASES,),
    ),
    Mutant(
        "lease-other-machine", _GRANTS,
        "if ask.machine != lease.machine or asked < answered:",
        "if asked < answered:",
        (LEASES,),
    ),
    Mutant(
        "lease-no-fence", _HOST_LEASE,
        "if not self.holds or frame.fence != self._fence:",
        "if not self.holds:",
        (LEASES,),
    ),
    Mutant(
        "lease-no-drift", "process/leases/timing.py",
        "return round(self.lease_ns * (1 + self.drift) / (1 - self.drift))",
        "return self.lease_ns",
        (LEASES,),
    ),
    Mutant(
        "lease-late-hear", _HOST_LEASE,
        '        """Take a message of the controller."""\n'
        "        if self.holds and now_ns >= self._until_ns:\n"
        "            yield from self._stop()\n",
        '        """Take a message of the controller."""\n',
        (RULES,),
    ),
    # Checkpoints.
    Mutant(
        "ckpt-not-sound", _FILES,
        "damaged = _note(path, round_no) if not parts else next(filter(_is_damaged, files), None)",
        "damaged = _note(path, round_no) if not parts else None",
        (FILES,),
    ),
    Mutant(
        "ckpt-note-stays", _FILES,
        "        os.unlink(_note(path, round_no))\n",
        "        pass\n",
        (FILES,),
    ),
    Mutant("ckpt-keep-one", _FILES, "_KEEP: Final = 2", "_KEEP: Final = 1", (FILES,)),
    Mutant(
        "ckpt-any-round-part", _SCHEDULE,
        "if round_no == self.last and part in self._missing:",
        "if part in self._missing:",
        (CHECKPOINTS,),
    ),
    Mutant(
        "ckpt-barrier-does-not-wait", _SERVER,
        "or not self._schedule.published:",
        "or False:",
        (CHECKPOINTS,),
    ),
    Mutant(
        "ckpt-prune-early", _SCHEDULE,
        "reached the new one.\n            prune(self._folder, self.kept)",
        "reached the new one.\n            prune(self._folder, self.last)",
        (CHECKPOINTS,),
    ),
    # What a server adds up, saves and takes back.
    Mutant(
        "store-not-evaluated", _STORE,
        "        self._need_evaluated()\n        return checkpoint.begin_encode(",
        "        return checkpoint.begin_encode(",
        (STORE,),
    ),
    Mutant(
        "store-no-known-check", _RESULTS,
        "        self._known.check(self.round, shard, result.marks)\n",
        "",
        (STORE,),
    ),
    Mutant(
        "store-restore-keeps-known", _STORE,
        "checkpoint.decode(parts, self._replica)\n        self.known.go_on_from(self.version)",
        "checkpoint.decode(parts, self._replica)",
        (STORE,),
    ),
    Mutant(
        "store-last-result", _RESULTS,
        "self._results.setdefault(shard, result)\n        if shard in self._ahead",
        "self._results[shard] = result\n        if shard in self._ahead",
        (STORE,),
    ),
    # Servers that take over.
    Mutant(
        "mig-first-piece", "server/migration.py",
        "return len(self._pieces) == self._donors",
        "return bool(self._pieces)",
        (HISTORIES,),
    ),
    Mutant(
        "mig-finished-gives", _SERVER,
        "if self._donor.to is not None and not outcome.finished:",
        "if self._donor.to is not None:",
        (RULES,),
    ),
    Mutant(
        "mig-lacking-answers", _SERVER,
        "        if self._inheritance.lacking:\n",
        "        if False:\n",
        (HISTORIES,),
    ),
    Mutant(
        "mig-heir-no-marks", _SERVER,
        "piece.save_not_before_ns)\n        self._marks.load()\n",
        "piece.save_not_before_ns)\n",
        (RULES,),
    ),
    Mutant(
        "mig-heir-no-schedule", _SERVER,
        "        self._schedule.follow(piece.kept, piece.saved, piece.save_not_before_ns)\n",
        "",
        (RULES,),
    ),
    Mutant(
        "mig-take-over-any-round", _SERVERS,
        "if moving.begins.round != passed:",
        "if False:",
        (HISTORIES,),
    ),
    Mutant(
        "mig-give-up-late", _SERVERS,
        "moving.heirs.generation != generation or moving.heirs.complete:",
        "moving.heirs.generation != generation:",
        (HISTORIES,),
    ),
    # The ledger.
    Mutant(
        "ledger-old-generation", _LEDGER,
        "if progress.ended or report.generation != progress.generation:",
        "if progress.ended:",
        (RULES,),
    ),
    Mutant(
        "ledger-barrier-before-sync", _LEDGER,
        "at_ns = max(self._clock.cluster_ns(report.at_ns), synced_ns)",
        "at_ns = self._clock.cluster_ns(report.at_ns)",
        (RULES,),
    ),
    Mutant(
        "ledger-pasts-of-last-only", "control/ledger_entries.py",
        "if past.last >= self.saves[0] - 1]",
        "if past.last >= self.saves[1] - 1]",
        (RULES,),
    ),
    Mutant(
        "ledger-copy-while-returning", _LEDGER,
        "if self._progress[job].ended or self._pending.returning(job):",
        "if self._progress[job].ended:",
        (RULES,),
    ),
    # What is lost, and where a job goes back to.
    Mutant(
        "rec-saved-unknown", _RECOVERY,
        "if self._ledger.passed(report.job) > report.saved > self._saved.get(report.job, 0):",
        "if report.saved > self._saved.get(report.job, 0):",
        (RULES,),
    ),
    Mutant(
        "rec-committed-early", _RECOVERY,
        "elif event.round >= saved > self._committed.get(job, 0):",
        "elif event.round + 1 >= saved > self._committed.get(job, 0):",
        (CHECKPOINTS,),
    ),
    Mutant(
        "rec-committed-stays", _RECOVERY,
        "        self._saved.pop(job, None)\n        self._committed.pop(job, None)",
        "        self._saved.pop(job, None)",
        (RULES,),
    ),
    Mutant(
        "rec-any-barrier-is-progress", _RECOVERY,
        "if passed > self._furthest.get(job, -1):",
        "if passed != self._furthest.get(job, -1):",
        (RULES,),
    ),
    Mutant(
        "rec-go-back-beyond", _SERVERS,
        "latest_round(self._context.outputs.checkpoints(job), at_most=passed)",
        "latest_round(self._context.outputs.checkpoints(job))",
        (HISTORIES,),
    ),
    # Input data on disk.
    Mutant(
        "input-block-unchecked", "training/input_data/spill_file.py",
        "        self._forget()\n        self._check(range(first, first + len(rows[0])), rows)",
        "        self._forget()",
        (SPILLED,),
    ),
    Mutant(
        "input-twice", _SPILLED,
        "and len({part.data_ptr() for part in parts}) == len(parts)\n",
        "and True\n",
        (SPILLED,),
    ),
    Mutant(
        "input-builders-wait", "training/input_data/memory_shares.py",
        "    if builders:  # what is free is for them\n        return held\n",
        "",
        (SHARES,),
    ),
    Mutant(
        "input-conj", _SPILLED,
        "and not (part.is_conj() or part.is_neg())\n",
        "and True\n",
        (SPILLED,),
    ),
)  # fmt: skip


def main() -> None:
    """Try all mutants, or those that the command line names, and save what came of all."""
    wanted = tuple(sys.argv[1:])
    chosen = [one for one in MUTANTS if not wanted or one.name.startswith(wanted)]
    if not chosen:
        sys.exit(f"no mutant's name begins with {' or '.join(wanted)}")
    with tempfile.TemporaryDirectory(prefix="warren-mutants-") as folder:
        root = Path(folder)
        for name in COPIED:
            _copy(_common.ROOT / name, root / name)
        for tests in sorted({test for one in chosen for test in one.tests}):
            if failed := _failed(root, tests):
                sys.exit(f"{tests} fails without any change: {failed}")
        rows = [_tried(root, one) for one in chosen]
    counts = Counter(row["outcome"] for row in rows)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    if not wanted:
        _common.save("mutants", 0, {"counts": dict(counts), "rows": rows})
    if counts["killed"] < len(rows):
        sys.exit(1)


def _copy(source: Path, to: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, to, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    else:
        shutil.copy(source, to)


def _tried(root: Path, one: Mutant) -> dict[str, str]:
    """Make one change, run its tests, and take it back."""
    path = root / LIVE / one.file
    text = path.read_text() if path.exists() else ""
    outcome, by = "survived", ""
    if text.count(one.before) != 1:
        outcome, by = "gone", f"{LIVE}{one.file} has not once: {one.before.strip()!r}"
    else:
        path.write_text(text.replace(one.before, one.after))
        try:
            by = next(filter(None, (_failed(root, test) for test in one.tests)), "")
        finally:
            path.write_text(text)
        outcome = "killed" if by else "survived"
    print(f"{one.name}: {outcome}{by and f' ({by})'}", flush=True)
    return {"mutant": one.name, "file": LIVE + one.file, "outcome": outcome, "by": by}


def _failed(root: Path, tests: str) -> str:
    """Run a file of tests; return the first that fails, or else an empty text."""
    # Bytecode of the change before may have its time and size.
    env = os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-p", "no:xdist", f"tests/{tests}"], cwd=root, env=env, text=True,
            capture_output=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{tests} was not over after {LIMIT_S} s"
    if not done.returncode:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    last = (named or done.stdout.splitlines() or done.stderr.splitlines())[-1:]
    return " ".join(last).removeprefix("FAILED ").partition(" - ")[0]


if __name__ == "__main__":
    main()
