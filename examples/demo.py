"""The demo: eight and more real jobs under two schedulers, predicted and trained, compared.

Run it with ``make demo``. Every step is a command you can run yourself; it is printed first.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import warren

PLACES = ("gavel-fifo", "hare")
RUN = Path("examples/quickstart/run.yaml")
OUT = Path("demo-out")


def main() -> None:
    """Predict, train and compare; then show that the schedules gave the same bits."""
    begin = monotonic()
    shutil.rmtree(OUT, ignore_errors=True)
    folders = []
    for place in PLACES:
        for verb, world in (("simulate", "predicted"), ("run", "live")):
            folder = OUT / f"{world}-{place}"
            command([verb, str(RUN), "--place", place, "--out", str(folder)])
            folders.append(str(folder))
    page = OUT / "compare.html"
    command(["compare", *folders, "--out", str(page)])
    for name in folders:
        command(["report", name, "--check"])
    show_bits()
    show_gap()
    heading(f"Done in {monotonic() - begin:.0f} s. Open {page.resolve()} in a browser;")
    print(f"each folder in {OUT}/ has its own report.html, tables, journal and trace.json.")


def command(arguments: Sequence[str]) -> None:
    """Print a command, run it, and stop if it fails."""
    heading("warren " + " ".join(arguments))
    done = subprocess.run([sys.executable, "-m", "warren", *arguments], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def show_bits() -> None:
    """Final parameters under both schedulers, by hash."""
    heading("Same job, any schedule, same bits")
    first, second = (warren.load(OUT / f"live-{place}") for place in PLACES)
    same = 0
    for name, job in first.jobs.items():
        hashes = [job.row["params_sha256"], second.job(name).row["params_sha256"]]
        same += hashes[0] == hashes[1]
        print(f"  {name:16} {hashes[0][:16]}  {hashes[1][:16]}  loss {job.row['final_loss']:.6f}")
    print(f"  {same} of {len(first.jobs)} jobs have the same bits under {' and '.join(PLACES)}")
    if same < len(first.jobs):
        sys.exit(1)


def show_gap() -> None:
    """How far each live schedule is from the best possible, at most."""
    heading("Weighted JCT beside its lower bound (cluster seconds)")
    for place in PLACES:
        values: dict[str, Any] = json.loads((OUT / f"live-{place}" / "summary.json").read_text())
        bound, gap = values["lower_bound"], values["gap"]["weighted_jct"]
        least = "none" if not bound else f"{bound['weighted_jct_s']:.0f}"
        far = "" if gap is None else f", at most {100 * gap:.0f} % above the best possible"
        print(f"  {place:12} {values['weighted_jct_s']:8.0f}   bound {least}{far}")


def heading(text: str) -> None:
    """A line that stands out."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    main()
