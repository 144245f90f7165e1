"""Some eighty ways to write an app: the same bits in every engine, or a line with a name in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from training_bench import whole
from zoo_bench import ENGINES, fresh, run, same_numbers, zoo_job
from zoo_table import BUILT, ONE_SERVER, SAME, TABLE, TASK, Kind, rows

from warren.live.oracle.plain import train
from warren.live.training.isolation.task_rules import TaskRules
from warren.live.training.parameter_store import ParameterStore
from warren.live.training.task_runner import TaskRunner
from warren.model.errors import SpecError
from warren.model.job import Stop

SAME_KINDS = [kind for kind in TABLE if kind.outcome == SAME]
OF_ONE_SERVER = [kind for kind in TABLE if kind.outcome == ONE_SERVER]
REFUSED = [kind for kind in TABLE if kind.outcome in (BUILT, TASK)]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning"),
]


def named(kind: Kind) -> str:
    return kind.app.partition(":")[2]


@pytest.mark.parametrize("kind", SAME_KINDS, ids=named)
def test_an_app_that_keeps_the_rules_has_the_same_bits_in_every_engine(kind: Kind) -> None:
    job = zoo_job(kind.app)
    plain = run("plain", job)
    assert same_numbers(run("one server", job), plain)
    assert same_numbers(run("two servers", job), plain)
    assert sorted(plain.metrics) == [2, 4]
    assert same_numbers(run("ring", job), run("plain ring", job))


@pytest.mark.parametrize("kind", OF_ONE_SERVER, ids=named)
def test_what_needs_all_gradients_is_refused_with_two_servers_and_same_elsewhere(
    kind: Kind,
) -> None:
    job = zoo_job(kind.app)
    assert same_numbers(run("one server", job), run("plain", job))
    assert same_numbers(run("ring", job), run("plain ring", job))
    with pytest.raises(SpecError, match=kind.says):
        run("two servers", job)


@pytest.mark.parametrize("kind", REFUSED, ids=named)
def test_an_app_that_breaks_the_rules_is_refused_by_the_same_line_in_every_engine(
    kind: Kind,
) -> None:
    said = set()
    for engine in ENGINES:
        with pytest.raises(SpecError) as found:
            run(engine, zoo_job(kind.app))
        said.add(str(found.value))
    (line,) = said
    assert kind.says in line
    assert line.startswith(kind.app)
    assert "\n" not in line


def test_what_only_the_clock_tells_apart_is_found_where_a_task_runs_twice() -> None:
    # A live run computes a share of tasks again elsewhere; without that nothing can show it.
    job = zoo_job("hidden.py:WallClock")
    store, runners = ParameterStore(fresh(job), job), [TaskRunner(fresh(job), job) for _ in "ab"]
    state = whole(store)
    store.add(0, runners[0].run(state, 0, 0))
    with pytest.raises(SpecError, match=r"not deterministic: task 0 of round 0 .* '0.weight'"):
        store.add(0, runners[1].run(state, 0, 0))


def test_a_random_split_without_a_seed_stops_at_the_same_round_in_every_engine() -> None:
    job = zoo_job("apart.py:RandomSplit", rounds=20)
    values = sorted(one["error"] for one in train(fresh(job), job).metrics.values())
    job = replace(job, rounds=None, stop=Stop(metric="error", falls_to=values[5]))
    plain = run("plain", job)
    assert 0 < len(plain.losses) < 20
    assert same_numbers(run("one server", job), plain)
    assert same_numbers(run("two servers", job), plain)
    assert same_numbers(run("ring", job), run("plain ring", job))


def test_the_page_has_the_table_of_what_was_tried() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "apps.md").read_text()
    for row in rows():
        assert row in page, row
    assert len({kind.app for kind in TABLE}) == len(TABLE)


@pytest.mark.parametrize("app", ["memory.py:ClampsDataLate", "refused.py:ClampsData"])
def test_a_write_that_no_comparison_finds_changes_no_bits_in_any_engine(
    app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskRules, "_is_compared", lambda self: False)
    job = zoo_job(app, rounds=6)
    plain = run("plain", job)
    assert same_numbers(run("one server", job), plain)
    assert same_numbers(run("two servers", job), plain)
    assert same_numbers(run("ring", job), run("plain ring", job))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_write_past_autograd_is_refused_in_the_same_round_in_every_engine(engine: str) -> None:
    """The state is right whatever was written, so it shows only where bytes are compared."""
    job = zoo_job("memory.py:ClampsDataLater")
    run(engine, replace(job, rounds=7))
    with pytest.raises(SpecError, match=r"writes parameter '0\.weight'"):
        run(engine, replace(job, rounds=8))
