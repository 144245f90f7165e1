"""``warren reproduce`` makes one figure again, beside the committed one, and leaves no trace."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_runs import CHECKOUT, Warren
from test_cli_live import Command, has_lines

pytestmark = pytest.mark.slow

ROWS = [
    {"cell": "80", "place": "hare", "weighted_jct_s": 10.0, "decide_s": 0.5, "by_seed_s": [9, 11]},
    {"cell": "80", "place": "srtf", "weighted_jct_s": 12.0, "decide_s": 0.1, "commit": "abc"},
]
PROGRAM = """
import json, os, sys
from pathlib import Path
path = Path(os.environ["WARREN_RESULTS"]) / "hare_figures.json"
found = json.loads(path.read_text())
found["parts"][sys.argv[2]]["rows"] = json.loads(Path(__file__).with_name("made").read_text())
path.write_text(json.dumps(found))
print("a line of progress")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    results = tmp_path / "experiments" / "results"
    results.mkdir(parents=True)
    (tmp_path / "experiments" / "_common.py").touch()
    (tmp_path / "experiments" / "hare_figures.py").write_text(PROGRAM)
    parts = {"14": {"rows": ROWS}, "line 12": {"rows": ROWS[:1]}}
    (results / "hare_figures.json").write_text(json.dumps({"parts": parts}))
    return tmp_path


def made(checkout: Path, *changes: dict[str, Any]) -> Path:
    """What the program will make: the rows with changes."""
    rows = [{**row, **more, "decide_s": 9.0} for row, more in zip(ROWS, changes, strict=False)]
    (checkout / "experiments" / "made").write_text(json.dumps(rows))
    return checkout


def state(checkout: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in checkout.rglob("*") if path.is_file()}


def test_figures_are_listed_by_paper(warren: Warren, checkout: Path) -> None:
    assert warren("reproduce", "--checkout", checkout, "--json").json == {
        "hare-14": 2, "hare-line-12": 1
    }  # fmt: skip
    assert "hare-line-12" in warren("reproduce", "--checkout", checkout / "experiments").out
    assert {"hare-14", "hlas-22", "sjf-bco-4", "jpas-16"} <= {
        *warren("reproduce", "--checkout", CHECKOUT, "--json").json
    }


def test_equal_rows_agree_whatever_they_took_and_the_checkout_stays(
    warren: Warren, checkout: Path
) -> None:
    made(checkout, {}, {})
    before = state(checkout)
    found = warren("reproduce", "hare-14", "--checkout", checkout)
    assert found.code == 0
    assert found.out.splitlines() == [
        "80, hare: weighted_jct_s 10 | 10: agree",
        "80, srtf: weighted_jct_s 12 | 12: agree",
        "hare-14: 2 of 2 rows agree (committed | made again)",
    ]
    assert state(checkout) == before


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([{"weighted_jct_s": 10.1}, {}], "80, hare: weighted_jct_s 10 | 10.1: differ in weighted_"),
        ([{"by_seed_s": [9, 12]}, {}], "80, hare: weighted_jct_s 10 | 10: differ in by_seed_s.1"),
        ([{}], "80, srtf: weighted_jct_s 12 | none: differ in weighted_jct_s"),
    ],
)
def test_a_row_that_differs_is_reported_and_is_exit_code_1(
    warren: Warren, checkout: Path, changes: list[dict[str, Any]], line: str
) -> None:
    found = warren("reproduce", "hare-14", "--checkout", made(checkout, *changes))
    assert found.code == 1
    assert any(one.startswith(line) for one in found.out.splitlines())
    assert "1 of 2 rows agree" in found.out


def test_what_cannot_be_made_again_is_one_line(
    warren: Warren, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told = warren("reproduce", "hare-41", "--checkout", checkout)
    assert (told.code, told.complaint) == (
        2, "reproduce: unknown figure 'hare-41'; did you mean hare-14? `warren reproduce` lists "
        "them",
    )  # fmt: skip
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    told = warren("reproduce", "hare-14", "--checkout", elsewhere)
    assert told.code == 2
    assert "is in no checkout of Warren" in told.complaint


def test_a_figure_of_the_paper_is_what_is_committed(warren: Warren) -> None:
    found = warren("reproduce", "hare-4", "--checkout", CHECKOUT, "--json")
    assert (found.code, found.json["agree"]) == (0, True)


def test_an_interrupt_ends_the_program_with_all_it_started_and_leaves_nothing(
    checkout: Path, tmp_path: Path
) -> None:
    program = "import os, subprocess, sys, tempfile, time\ntempfile.mkdtemp()\n"
    program += "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    program += f"open({str(tmp_path / 'ids')!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}\\n')\n"
    (checkout / "experiments" / "hare_figures.py").write_text(program + "time.sleep(600)\n")
    command = Command(tmp_path, "reproduce", "hare-14", "--checkout", checkout, cold=True)
    command.wait_for(has_lines(tmp_path / "ids", 1))
    code, _, err = command.end(signal.SIGINT)
    assert (code, err[-1]) == (130, "warren: interrupted")
    for pid in (tmp_path / "ids").read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"
    assert {path.name for path in (tmp_path / "tmp").iterdir()} == {"stdout", "stderr"}
