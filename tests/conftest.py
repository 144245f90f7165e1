"""What all tests share: the real data, Hypothesis settings, a history, no process left behind."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from hypothesis import HealthCheck, settings
from warm_zygote import WarmZygote, start_cold

settings.register_profile(
    "warren",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("warren"), max_examples=2000)
settings.register_profile("quick", settings.get_profile("warren"), max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "warren"))

LEFT_S = 30.0
"""Seconds that the processes of a test may take to end after it."""
CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public traces and profiles: WARREN_DATA, or ../shared/data."""
    named = os.environ.get("WARREN_DATA")
    folder = Path(named) if named else CHECKOUT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public traces are not here; WARREN_DATA=FOLDER names them")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, nor a process it starts, writes to the history of whoever runs the tests."""
    before = os.environ.get("WARREN_HISTORY")
    os.environ["WARREN_HISTORY"] = str(tmp_path_factory.mktemp("history") / "history.db")
    yield
    del os.environ["WARREN_HISTORY"]
    if before is not None:
        os.environ["WARREN_HISTORY"] = before


@pytest.fixture(scope="session", autouse=True)
def _no_claims() -> Iterator[None]:
    """Tests run beside each other, and beside the runs of whoever runs them, on few processors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARREN_CLAIMS", "")
        yield


@pytest.fixture(scope="session")
def warm_zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmZygote]:
    """What the zygotes of runs in this process are forked from."""
    processes.adopt_orphans()
    warm = WarmZygote(tmp_path_factory.mktemp("warm"))
    yield warm
    warm.close()


@pytest.fixture(autouse=True, scope="module")
def _zygotes_are_warm(request: pytest.FixtureRequest) -> Iterator[None]:
    """The runs of a live file, in this process, do not load PyTorch each for itself."""
    with pytest.MonkeyPatch.context() as patch:
        # The service's tests start programs that never load PyTorch.
        if processes.are_started_by(request.path) and request.path.parent.name != "serve":
            warm = request.getfixturevalue("warm_zygote")
            patch.setattr("warren.live.process.process_pool._start_zygote", warm.start)
        yield


@pytest.fixture
def cold_zygotes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process load their libraries as those of users do."""
    monkeypatch.setattr("warren.live.process.process_pool._start_zygote", start_cold)


@pytest.fixture(autouse=True)
def _no_process_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test marked ``live`` fails when a process it started outlives it."""
    if request.node.get_closest_marker("live") is None:
        yield
        return
    before = processes.descendants(os.getpid())
    yield
    left = processes.wait_until_gone(before, timeout_s=LEFT_S)
    for process in left:
        processes.kill(process)
    assert not left, "processes left behind: " + "; ".join(process.command for process in left)


@pytest.fixture(scope="session")
def can_make_testbeds() -> None:
    """Skips where this process or this kernel cannot: one is tried."""
    from warren.live.testbed.lifecycle import make, remove
    from warren.model.errors import SpecError
    from warren.model.testbed import Bed, BedHost

    hosts = tuple(BedHost(name=f"h{i}", link_bps=10**8) for i in range(2))
    name = f"try-{os.getpid()}"
    try:
        make(Bed(name=name, subnet="10.77.0.0/24", hosts=hosts))
    except SpecError as error:
        pytest.skip(f"no testbed can be made here: {error}")
    remove(name)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded and collected stays: looking for garbage meanwhile takes a fifth of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is loaded stays: looking for garbage among it takes a twentieth of the tests' time.

    Nor is it looked for after every 700 new objects, as it is not by the command of users.
    """
    gc.freeze()
    gc.set_threshold(200_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """One file at a time a worker; those that look at the whole machine in one worker.

    Not by the marks ``xdist_group``, which the pinned xdist loses on its way from the workers.
    """
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if processes.look_at_the_machine(config.rootpath / file):
                return "machine"
            if file.startswith("tests/architecture/"):
                return "architecture"  # all of them look at the same syntax trees
            return file

        def _assign_work_unit(self, node: object) -> None:
            """Give out the longest first: those of the machine, files with live tests, slow ones.

            At the end short ones are left, so that no worker waits long for the last.
            """

            def rank(scope: str) -> int:
                if scope == "machine":
                    return 0
                file = config.rootpath / scope
                return 1 + processes.rank(file) if scope.endswith(".py") else 2

            self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
            super()._assign_work_unit(node)

    return Files(config, log)  # type: ignore[arg-type]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so when nothing was skipped; otherwise pytest lists each skip and why (``-ra``)."""
    if "skipped" not in terminalreporter.stats:
        terminalreporter.write_line("no test was skipped")
