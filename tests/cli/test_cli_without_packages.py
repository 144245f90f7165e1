"""Without PyTorch and other extras, a line names what is missing and the command to install it."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest
from cli_runs import CHECKOUT, JOBS, Warren, write_run

from warren.live import extras
from warren.live.training.app.app_errors import reason_of
from warren.model.errors import SpecError
from warren.runs import api

ASKED = ['torch==2.13.0; extra == "live"', 'xxhash; extra == "live"',
         'ray==2.58.0; extra == "ray"', 'pandas; extra == "frames"',
         'scikit-learn; extra == "examples"', "numpy"]  # fmt: skip
PIP = f"{sys.executable} -m pip install"
LIVE = f"PyTorch is not installed; run: {PIP} torch==2.13.0 xxhash"
ONE = f"jobs: [{{name: a, app: {CHECKOUT}/tests/cli/drawn_apps.py:Line, rounds: 1, batch: 4}}]\n"
UNPRICED = JOBS.replace("model: graphsage, ", "")


@pytest.fixture(autouse=True)
def _as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the distribution asks for, whatever this environment was made of."""
    monkeypatch.setattr(extras, "requires", lambda name: {"warren-scheduler": ASKED}[name])


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch cannot be imported, and a process of the engine's fails the test."""

    def started(*_: object) -> NoReturn:
        raise AssertionError("a process was started")

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("warren.live.process.process_pool._start_zygote", started)
    monkeypatch.setattr("warren.live.measure.ring_rounds.subprocess", None)


@pytest.mark.parametrize(
    "command",
    [
        "run {run} --out {out}",
        "run {plain} --out {out}",
        "check {run}",
        "check {jobs} --job a",
        "profile {jobs} --cluster {cluster} --db {out}",
        "calibrate --local --out {out}",
        "calibrate --local --jobs {unpriced} --out {out}",
        "calibrate --rings --local --out {out}",
        "simulate {unpriced} --out {out}",
        "compare {unpriced} --place srtf,fifo --out {out}",
    ],
)
@pytest.mark.usefixtures("without_torch")
def test_each_command_that_trains_names_pytorch_and_leaves_nothing(
    command: str, warren: Warren, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "in")
    plain = write_run(
        tmp_path / "plain", cluster="engine: plain\nhosts: [{name: h, devices: {CPU: 1}}]\n"
    )
    unpriced = write_run(tmp_path / "unpriced", jobs=UNPRICED)
    here, out = Path(run).parent, tmp_path / "out"
    words = command.format(
        run=run, plain=plain, unpriced=unpriced, out=out,
        jobs=here / "jobs.yaml", cluster=here / "cluster.yaml",
    ).split()  # fmt: skip
    found = warren(*words)
    assert (found.code, found.out) == (2, "")
    assert found.err[-1] == f"warren: {LIVE}"
    assert len([line for line in found.err if line.startswith("warren: ")]) == 1
    assert not out.exists()


@pytest.mark.usefixtures("without_torch")
def test_what_needs_no_pytorch_does_without(warren: Warren, tiny: str, tmp_path: Path) -> None:
    assert warren("simulate", tiny, "--out", tmp_path / "out").code == 0
    result = api.load(tmp_path / "out")
    for job in result.jobs.values():
        with pytest.raises(SpecError, match="no parameters"):
            job.params()


def test_every_package_of_an_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "xxhash", None)
    with pytest.raises(SpecError, match=r"^xxhash is not installed; run: "):
        extras.need("live")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SpecError, match=r"^PyTorch and xxhash are not installed; run: "):
        extras.need("live")


@pytest.mark.parametrize(
    "command",
    [
        "hosts 10.0.0.1:6379",
        "testbed up --name x --hosts 2 --link 1Gbit --ray",
        "run {run} --out {out}",
    ],
)
def test_without_ray_the_way_to_get_it_is_reported(
    command: str, warren: Warren, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    cluster = "engine: {ray: 127.0.0.1:6379}\nhosts: [{name: h, devices: {CPU: 1}}]\n"
    run = write_run(tmp_path / "in", cluster=cluster, jobs=ONE)
    found = warren(*command.format(run=run, out=tmp_path / "out").split())
    assert found.code == 2
    assert found.complaint == f"Ray is not installed; run: {PIP} ray==2.58.0"
    assert not (tmp_path / "out").exists()


def test_without_pandas_the_way_to_get_it_is_reported(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SpecError) as raised:
        api.simulate(tiny).frame()
    assert str(raised.value) == f"pandas is not installed; run: {PIP} pandas"


def test_an_app_that_needs_an_extra_fails_with_the_way_to_get_it() -> None:
    missing = ModuleNotFoundError("No module named 'sklearn'", name="sklearn.datasets")
    assert reason_of(missing).endswith(f"'sklearn'; run: {PIP} scikit-learn")
    own = ModuleNotFoundError("No module named 'mine'", name="mine")
    assert reason_of(own).endswith("'mine'")


def test_in_a_checkout_that_is_not_installed_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "requires", absent)
    assert extras.install_command("live") == f"{PIP} '.[live]', in a checkout of Warren"


def test_every_extra_that_a_message_names_is_one_of_the_distribution() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text()
    assert f'name = "{extras.DISTRIBUTION}"' in text
    assert all(f"\n{extra} = [" in text for extra in extras._MODULES)
