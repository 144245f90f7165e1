"""``warren simulate``, ``compare`` and ``report`` of what a service has recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from cli_runs import Warren

from warren.runs.results import load_record
from warren.store.files import read_dir

sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))
from service_story import S, Story, eventful, three_jobs


def test_simulate_shows_the_service_beside_a_policy_and_each_user(
    warren: Warren, tmp_path: Path
) -> None:
    home = three_jobs().home(tmp_path / "home")
    found = warren("simulate", home, "--place", "gavel-fifo", "--out", str(tmp_path / "sim"))
    assert found.code == 0
    rows = [line.split() for line in found.out.splitlines()]
    places = [row[1] for row in rows if row and row[0] == home]
    assert places == ["service", "gavel-fifo"]
    users = [row for row in rows if row and row[0] in ("all", "ana", "bo")]
    assert [row[:2] for row in users] == [
        [user, place] for user in ("all", "ana", "bo") for place in ("service", "gavel-fifo")
    ]
    # Of bo's two jobs: 99 s and 98 s of waiting, 109 s and 128 s in all, on a device at a time.
    assert [row[2:] for row in users[4:]] == [["2", "98.5", "s", "118.5", "s", "0.67", "min"]] * 2
    again = load_record("sim", read_dir(str(tmp_path / "sim")))
    assert (again.history.finish_ns_J / S).tolist() == [100, 110, 130]
    # The journal alone is as good as the home, and JSON is one object.
    values = warren("simulate", f"{home}/queue.db", "--place", "fifo", "--json").json
    assert values["scheduler"]["place"] == "fifo"
    assert values["service"]["scheduler"]["place"] == "service"
    assert values["service"]["makespan_s"] == 130
    assert {row["user"] for row in values["beside"]} == {"", "ana", "bo"}


def test_compare_sets_a_service_beside_several_policies(warren: Warren, tmp_path: Path) -> None:
    home = three_jobs().home(tmp_path / "home")
    found = warren("compare", home, "--place", "fifo,braid-online", "--since", "7d", "--json")
    values = found.json
    assert [one["scheduler"]["place"] for one in values] == ["service", "fifo", "braid-online"]
    assert all(one["finished"] == 3 for one in values)
    # Without policies: the record alone, beside a folder.
    warren("simulate", home, "--place", "fifo", "--out", str(tmp_path / "sim"))
    table = warren("compare", home, str(tmp_path / "sim")).out
    assert "service" in table
    assert "fifo" in table
    text = warren("compare", home, "--place", "braid-online").out
    assert "braid-online: may know how long commands run, which a service does not" in text


def test_report_of_a_service_writes_the_folder_of_a_run(warren: Warren, tmp_path: Path) -> None:
    home, out = eventful().home(tmp_path / "home"), tmp_path / "week"
    found = warren("report", home, "--since", "7d", "--out", str(out))
    assert found.code == 0
    assert "3/6 jobs finished" in found.out
    record = load_record("week", read_dir(str(out)))
    assert record.history.status(0) == "failed"
    assert (out / "report.html").stat().st_size > 10_000
    assert json.loads((out / "summary.json").read_text())["world"] == "service"
    assert warren("report", str(out), "--check").out.endswith(": every check holds\n")
    assert warren("report", home, "--json").json["failed"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "HOME"], "--place: is missing: name the policy"),
        (["simulate", "HOME", "--place", "x"], "unknown policy 'x'"),
        (["simulate", "HOME", "--place", "fifo", "--since", "1x"], "--since: unknown unit 'x'"),
        (["simulate", "HOME", "--place", "fifo", "--since", "0 s"], "'0 s' is not more than 0"),
        (["simulate", "run.yaml", "--since", "7d"], "--since: is for the home of a service"),
        (["compare", "run.yaml", "--since", "7d"], "--since: is for the home of a service"),
        (["report", "HOME", "--check"], "--check: is for the folder of a run"),
        (["report", "x", "--out", "y"], "--out: is for a service"),
        (["simulate", "EMPTY", "--place", "fifo"], "no job ran"),
        (["simulate", "BROKEN", "--place", "fifo"], "its journal"),
    ],
)
def test_wrong_use_is_one_line(
    warren: Warren, arguments: list[str], message: str, tmp_path: Path
) -> None:
    empty = Story().submit(0, "1").home(tmp_path / "empty")
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    paths = {"HOME": three_jobs().home(tmp_path / "home"), "EMPTY": empty, "BROKEN": str(broken)}
    found = warren(*(paths.get(one, one) for one in arguments))
    assert found.code == 2
    assert message in found.complaint
    assert not Path("y").exists()
