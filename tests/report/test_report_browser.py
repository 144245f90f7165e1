"""What a reader sees of a run's page, measured in a Chromium, where this machine has one.

A script at the end of the page writes into it where things are; the browser prints the page then.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from report_world import record_of

from warren.model.job import Workload
from warren.report.page.page import page

pytestmark = pytest.mark.slow

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER: Final = os.environ.get("BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
HEADINGS: Final = ("Jobs over time", "Schedule by device", "Users", "Jobs")
MEASURE: Final = """
<script>
addEventListener("load", () => {
  const shown = e => {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    return box.width > 0 && box.height > 0 && style.visibility == "visible" && style.opacity > 0;
  };
  const colour = e => getComputedStyle(e).color;
  const first = document.querySelector("table tbody td, table tbody th");
  const found = {
    wide: document.documentElement.scrollWidth,
    window: innerWidth,
    ink: colour(document.body),
    ground: getComputedStyle(document.body).backgroundColor,
    headings: [...document.querySelectorAll("h2")].filter(shown).map(e => e.textContent),
    charts: [...document.querySelectorAll("svg")].filter(shown).length,
    boxes: [...document.querySelectorAll("svg path[data-j]")].filter(e => {
      const box = e.getBoundingClientRect();
      return box.width > 0 && box.height > 0;
    }).length,
    text: document.body.innerText,
    first: first && getComputedStyle(first).position,
    rows: [...document.querySelectorAll("table tbody tr")].filter(shown).length,
  };
  const place = document.createElement("pre");
  place.id = "measured";
  place.textContent = JSON.stringify(found);
  document.body.append(place);
});
</script>
"""


def measured(text: str, folder: Path, width: int, *options: str) -> dict[str, Any]:
    """What the script has measured of a page in a window of this width."""
    assert BROWSER is not None
    file = folder / "page.html"
    file.write_text(text + MEASURE)
    command = [BROWSER, "--headless", "--disable-gpu", f"--window-size={width},900", *options]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    command += [f"--user-data-dir={folder / 'browser'}", "--dump-dom", file.as_uri()]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    if "</html>" not in done.stdout:
        pytest.skip(f"{BROWSER} shows no page here: {done.stderr.strip()[-200:]}")
    found = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None
    values: dict[str, Any] = json.loads(html.unescape(found[1]))
    return values


@pytest.fixture(scope="module")
def text() -> str:
    """The page of a run of twelve jobs, whose names and users a reader looks for."""
    record = record_of(jobs=12, seed=3)
    jobs = tuple(replace(job, name=f"job-{job.index}") for job in record.run.workload.jobs)
    return str(page(replace(record, run=replace(record.run, workload=Workload(jobs=jobs)))))


@pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed ({', '.join(NAMES)})")
@pytest.mark.parametrize("width", [500, 1280, 1920])
def test_a_reader_sees_headings_charts_figures_and_tables(
    text: str, tmp_path: Path, width: int
) -> None:
    seen = measured(text, tmp_path, width)
    assert [one for one in seen["headings"] if one in HEADINGS] == list(HEADINGS)
    assert seen["charts"] >= 3
    assert seen["boxes"] >= 12  # of each job at least one
    assert seen["rows"] >= 12 + 3  # of jobs and of users
    for words in ("mean JCT", "mean wait", "makespan", "jobs finished", "job-0", "user0"):
        assert words.lower() in seen["text"].lower()
    assert seen["first"] == "sticky"  # the name of a job stays while its table is scrolled
    assert seen["wide"] <= seen["window"], "the page is wider than its window"


@pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed ({', '.join(NAMES)})")
def test_a_dark_window_has_light_ink_on_dark_ground(text: str, tmp_path: Path) -> None:
    def light(colour: str) -> float:
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3]))

    day = measured(text, tmp_path, 1280, "--blink-settings=preferredColorScheme=1")
    night = measured(text, tmp_path, 1280, "--blink-settings=preferredColorScheme=0")
    assert light(day["ink"]) < light(day["ground"])
    assert light(night["ink"]) > light(night["ground"])


def test_without_a_browser_the_page_still_has_what_must_be_visible(text: str) -> None:
    for heading in HEADINGS:
        assert f"<h2>{heading}</h2>" in text
    assert text.count("<svg") >= 3
    assert all(f"job-{number}" in text for number in range(12))
    assert "@media screen and (prefers-color-scheme:dark)" in text
    assert "@media print" in text
