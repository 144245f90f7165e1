"""The notebooks of examples/ run from top to bottom, and a researcher's task fits into one cell."""

from __future__ import annotations

import ast
import json
import linecache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

pytest.importorskip("pandas", reason="pandas (extra: frames) is not installed")

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
MOST_LINES = 12


def cells(name: str, kind: str = "code") -> list[str]:
    """The texts of a notebook's cells of a kind."""
    found = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == kind]


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Run the cells one after another, as Jupyter does; return the names and each cell's value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    values = []
    for number, text in enumerate(cells(name)):
        place = f"<{name}, code cell {number}>"
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        tree = ast.parse(text, place)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, place, "exec"), names)
        values.append(
            None
            if last is None
            else eval(compile(ast.Expression(last.value), place, "eval"), names)
        )
    return names, values


def test_own_trace_and_policy_two_baselines_means_and_a_figure_take_at_most_12_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (task,) = [text for text in cells("compare_policies") if "plot_means" in text]
    assert len([line for line in task.splitlines() if line.strip()]) <= MOST_LINES
    names, values = run("compare_policies")
    table = names["table"]
    assert list(table["place"]) == ["fifo", "las-2d", "python:NarrowFirst"]
    assert set(table["seeds"]) == {5}
    assert (table["mean_jct_s_ci95"] > 0).all()
    assert table["against_mean"].notna().tolist() == [False, True, True]
    figures = [value for value in values if isinstance(value, Figure)]
    assert len(figures) == 2  # of means, and of the sweep
    assert figures[0].axes[0].get_title(loc="left").endswith("mean of 5 seeds, 95 % interval")
    assert figures[0]._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    assert names["swept"]["cluster.hosts[0].count"].tolist() == ["2"] * 3 + ["3"] * 3 + ["4"] * 3


def test_a_run_is_read_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names, values = run("read_a_run")
    assert sum(isinstance(value, Figure) for value in values) == 3
    assert {"ana", "ben"} == set(names["fifo"].frame()["user"])
    assert names["srtf"].summary["mean_jct_s"] < names["fifo"].summary["mean_jct_s"]
    assert values[-1].keys() == {"fifo", "srtf"}


@pytest.mark.parametrize("name", ["compare_policies", "read_a_run"])
def test_a_notebook_is_kept_without_its_output(name: str) -> None:
    found = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())
    assert found["nbformat"] == 4
    for cell in found["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
