"""``warren predict``: a curve is read, predicted and drawn; what is wrong is one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from cli_runs import CHECKOUT, Warren

DIGITS = CHECKOUT / "examples" / "curves" / "digits.csv"
LOG = CHECKOUT / "examples" / "curves" / "digits.log"
FIELDS = ["at", "mean", "low", "high", "p_target", "seconds"]


@pytest.fixture
def curve(tmp_path: Path) -> Path:
    """A hundred steps of an accuracy, and no noise."""
    path = tmp_path / "curve.csv"
    rows = [f"{step},{0.9 - 0.7 * step**-0.5}" for step in range(1, 101)]
    path.write_text("\n".join(["step,value", *rows]) + "\n")
    return path


def test_the_answer_has_the_fields_that_were_promised(warren: Warren, curve: Path) -> None:
    found = warren("predict", curve, "--observe", "30%", "--at", "100%", "--json")
    assert (found.code, found.err) == (0, [])
    told = found.json
    assert list(told)[:6] == FIELDS
    assert (told["at"], told["p_target"]) == (100, None)
    assert told["observed"]["points"] == 30
    assert told["low"] < told["mean"] < told["high"]
    assert told["low"] < 0.83 < told["high"]
    assert told["seconds"] > 0


def test_only_what_may_be_observed_has_a_say(warren: Warren, curve: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.csv"
    part.write_text("\n".join(curve.read_text().splitlines()[:31]) + "\n")
    whole = warren("predict", curve, "--observe", "30%", "--at", "90", "--json").json
    alone = warren("predict", part, "--at", "300%", "--json").json
    assert [whole[name] for name in FIELDS[:4]] == [alone[name] for name in FIELDS[:4]]


def test_steps_may_be_given_as_such(warren: Warren, curve: Path) -> None:
    one = warren("predict", curve, "--observe", "30", "--at", "250", "--json").json
    other = warren("predict", curve, "--observe", "30 %", "--at", "250%", "--json").json
    assert one["at"] == other["at"] == 250
    assert one["mean"] == other["mean"]


def test_the_chance_of_a_target_is_reported_to_people_too(warren: Warren, curve: Path) -> None:
    low, high = (
        warren("predict", curve, "--at", "200", "--target", target, "--json").json["p_target"]
        for target in ("0.7", "2.5")
    )
    assert low > 0.9
    assert high < 0.1
    found = warren("predict", curve, "--at", "200", "--target", "0.7")
    assert found.out.startswith(f"{curve}: rising; 100 points to step 100, the last 0.83")
    assert "0.7 or better: " in found.out


def test_the_same_seed_gives_the_same_answer(warren: Warren, curve: Path) -> None:
    answers = []
    for seed in ("1", "1", "2"):
        told = warren("predict", curve, "--at", "200", "--seed", seed, "--json").json
        answers.append([told[name] for name in FIELDS[:4]])
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


def test_a_gzipped_log_is_read_by_a_pattern(warren: Warren, tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(LOG.read_bytes()))
    pattern = r"loss=(?P<value>[0-9.]+)"
    told = warren("predict", packed, "--pattern", pattern, "--at", "200%", "--json").json
    assert told["direction"] == "falling"
    assert told["at"] == 2 * told["observed"]["points"]
    stepped = r"round (?P<step>\d+): .*loss=(?P<value>[0-9.]+)"
    told = warren("predict", packed, "--pattern", stepped, "--at", "200%", "--json").json
    assert told["at"] == 2 * told["observed"]["step"]


def test_other_columns_of_a_table_are_named(warren: Warren, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("round,time_s,loss\n1,0.5,3\n2,0.6,2\n3,0.7,1.5\n4,0.8,1.2\n")
    told = warren("predict", path, "--columns", "round,loss", "--at", "8", "--json").json
    assert told["direction"] == "falling"
    assert told["mean"] < 1.2


def test_a_stated_cut_and_the_columns_name_are_heeded(warren: Warren, tmp_path: Path) -> None:
    path = tmp_path / "flat.csv"
    values = [0.2, 0.4, 0.5, 0.55, *(0.6 + 0.01 * (step % 2) for step in range(20))]
    rows = [f"{step},{value},{value}" for step, value in enumerate(values, start=1)]
    path.write_text("\n".join(["step,acc,f1", *rows]) + "\n")

    def mean(*options: str) -> float:
        return float(warren("predict", path, "--at", "60", "--json", *options).json["mean"])

    accuracy, f1 = ("--columns", "step,acc"), ("--columns", "step,f1")
    assert mean(*accuracy, "--cuts", "30,50") > mean(*accuracy, "--cuts", "none") + 0.05
    assert mean(*accuracy, "--cuts", "70") == mean(*accuracy, "--cuts", "none")
    assert mean(*f1) == mean(*accuracy, "--metric", "F1")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_shows_points_mean_and_band(
    warren: Warren, curve: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"curve.{suffix}"
    options = ("--observe", "30%", "--target", "0.85", "--plot", str(path), "--json")
    found = warren("predict", curve, *options)
    assert (found.code, found.err) == (0, [f"written: {path}"])
    assert list(found.json)[:6] == FIELDS
    first = path.read_bytes()
    warren("predict", curve, *options)
    assert path.read_bytes() == first
    if suffix == "png":
        from matplotlib.image import imread

        picture = imread(path)
        blue, orange = np.array([0x0B, 0x53, 0x94]) / 255, np.array([0xE6, 0x9F, 0]) / 255
        for colour in (blue, orange):
            assert (np.abs(picture[..., :3] - colour).max(axis=2) < 0.02).sum() > 50


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--at", "50"), "--at: step 50 lies before the last one observed, 100; give a later one"),
        (("--at", "soon"), "--at: 'soon' is neither a step nor a percentage, such"),
        (("--at", "nan"), "--at: 'nan' is neither"),
        (("--cuts", "soon"), "--cuts: 'soon' is neither steps, such as 100,150, nor none"),
        (("--cuts", "1,inf"), "--cuts: '1,inf' is neither steps"),
        (("--observe", "-3"), "--observe: '-3' is neither"),
        (("--observe", "1%"), "--observe: 1% leaves 1 of 100 points; from step 2 on it is 2"),
        (("--target", "nan"), "--target: nan is not a finite number"),
        (("--columns", "a"), "--columns: 'a' is not STEP,VALUE, for example round,loss"),
        (("--columns", "a,b"), ":1: no column 'a'"),
        (("--columns", "a,b", "--pattern", "x"), "--columns: names columns of a table; leave"),
        (("--pattern", "x("), "--pattern: is not a regular expression"),
        (("--plot", "c.bmp"), "c.bmp: is no picture; allowed: names that end in .png, .svg, .pdf"),
        (("--plot", "no/such/c.png"), "no/such: no such folder; make it first"),
        (("--seed", "-1"), "--seed"),
    ],
)
def test_wrong_input_is_one_line(
    warren: Warren, curve: Path, options: tuple[str, ...], told: str
) -> None:
    found = warren("predict", curve, *options, "--json")
    assert (found.code, found.out) == (2, "")
    assert told in found.complaint


def test_a_row_that_is_no_number_is_named(warren: Warren, curve: Path) -> None:
    curve.write_text(curve.read_text().replace("\n7,", "\n7,NaN #"))
    assert warren("predict", curve).complaint.startswith(f"{curve}:8: value 'NaN #")


def test_what_was_not_used_is_reported_to_people_and_in_json(
    warren: Warren, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.csv"
    rows = [f"{step},{2 + 5 * 0.9**step},nan" for step in range(30)]
    rows[12], rows[20] = "12,7000,0.5", "20,2.7,nan"
    path.write_text("\n".join(["round,loss,accuracy", *rows, "31,2.4,0.75", "34,nan,nan"]) + "\n")
    found = warren("predict", path, "--columns", "round,loss", "--at", "60")
    assert (found.code, found.err) == (0, [])
    notes = [
        "1 row has no value and is passed over, the first in line 33: 1 'nan'",
        "from line 33 on no value is a number: the training may have diverged there",
        "1 value is far off all others and not counted: 7000 at step 12",
    ]
    assert [line.strip() for line in found.out.splitlines()[1:-1]] == notes
    assert f"{path}: falling; " in found.out
    assert warren("predict", path, "--columns", "round,loss", "--json").json["notes"] == notes
    told = warren("predict", path, "--columns", "round,accuracy", "--json").json
    assert told["observed"]["points"] == 2
    assert told["notes"][0].startswith("30 rows have no value and are passed over, the first in ")


def test_a_name_that_the_values_contradict_is_reported(warren: Warren, curve: Path) -> None:
    told = warren("predict", curve, "--metric", "val_loss", "--at", "200", "--json").json
    assert told["direction"] == "falling"
    assert told["notes"] == ["better is lower by the name 'val_loss', but the values rise"]


def test_the_state_of_a_trainer_is_predicted(warren: Warren, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    history = [{"loss": 2 + 5 * 0.9**step, "step": 10 * step} for step in range(1, 31)]
    path.write_text(json.dumps({"best_metric": None, "log_history": history}))
    told = warren("predict", path, "--at", "200%", "--json").json
    assert (told["direction"], told["observed"]["step"], told["at"]) == ("falling", 300, 600)
