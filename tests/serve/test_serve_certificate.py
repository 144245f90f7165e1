"""The certificate of a command: its verdict from made-up evidence, and files that are read."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificate_evidence import (
    EVERY,
    OTHER,
    STEPS,
    WHOLE,
    Resumed,
    apart,
    found,
    step,
    values,
)
from msgspec.structs import replace

from warren.serve.certificate import verdict
from warren.serve.certificate.command_run import INJECTED
from warren.serve.certificate.evidence import (
    CheckedRun,
    CheckedStep,
    CheckpointFile,
    Save,
    StoppedRun,
)
from warren.serve.certificate.files import last_files
from warren.serve.certificate.folder_events import FolderEvent
from warren.serve.certificate.saves import drawn_stop, newest_saves, saves_of


def test_the_same_steps_and_values_after_the_newest_save_are_exact() -> None:
    judgement = Resumed().judged()
    assert found(judgement) == ("exact", [])
    assert (judgement.began, judgement.difference) == (8, None)


def test_equal_bits_are_not_exact_where_a_torn_file_made_the_run_begin_again() -> None:
    torn = {"last.pt": CheckpointFile(written=1.0, format="torch_file", error="torn")}
    judgement = Resumed(began=0, at_stop=torn).judged()
    assert found(judgement) == ("loses", ["torn file"])
    assert judgement.difference is None
    unused = Resumed(began=4).judged()
    assert found(unused) == ("loses", ["checkpoint not used"])


def test_a_save_that_was_cut_off_may_be_missing_if_the_one_before_it_is_used() -> None:
    assert found(Resumed(began=4, stop=8).judged()) == ("exact", [])
    assert found(Resumed(began=0, stop=8).judged())[0] == "loses"


def test_a_file_of_another_kind_may_be_newer_than_the_one_that_is_loaded() -> None:
    steps = [replace(step(k), changed=["log.txt"]) for k in range(12)]
    steps[9] = replace(steps[9], changed=["best.pt", "log.txt"])
    steps[8] = replace(steps[8], changed=["last.pt", "last.pt.tmp"])
    files = {**values(), "best.pt": values()["last.pt"]}
    assert newest_saves(steps, files) == (8, 9)
    late = {"last.pt": replace(values()["last.pt"], values={"step": ["int", [], 8]})}
    resumed = replace(WHOLE, lanes={"0": [step(k) for k in range(8, STEPS)]})
    stop = StoppedRun(by="kill", place="", steps=12, newest=(8, 9), files={}, resumed=resumed)
    assert found(verdict.judged(WHOLE, stop)) == ("exact", [])
    slow = replace(stop, newest=(10,), files=late)
    assert found(verdict.judged(WHOLE, slow)) == ("exact", [])
    assert found(verdict.judged(WHOLE, replace(slow, files={})))[0] == "loses"


def test_a_run_that_saves_only_at_its_end_loses_all_of_it() -> None:
    only_end = replace(WHOLE, saves=(Save(STEPS, STEPS),))
    stop = StoppedRun(by="kill", place="between saves", steps=10, files={}, resumed=WHOLE)
    assert found(verdict.judged(only_end, stop)) == ("loses", ["no save"])
    saved = replace(WHOLE, lanes={"0": [step(k) for k in range(10, STEPS)]})
    by_signal = replace(stop, by="signal", resumed=saved, files=values())
    assert found(verdict.judged(only_end, by_signal)) == ("exact", [])


@pytest.mark.parametrize(
    ("steps", "level", "kinds"),
    [
        (apart(state="", state_kinds=[]), "loses", ["optimizer"]),
        (apart(state="state 4"), "loses", ["torn pair"]),
        (apart(others=["a copy of weights 8"], grads="other", norm=1.5), "loses",
         ["values beside the model"]),
        (apart(rng={"torch": "rng 8 after its masks"}, grads="other"), "restarts", ["RNG"]),
        (
            apart(state="cast", state_kinds=["momentum: torch.bfloat16"]),
            "equal order",
            ["dtype"],
        ),
        (apart(lr=[0.1]), "loses", ["scheduler"]),
        (apart(scale=2.0, grads="other"), "loses", ["scaler"]),
        (apart(rng={"torch": "fresh"}, grads="other"), "restarts", ["RNG"]),
        (apart(grads="other", rng={"torch": "rng 8", "python": "other"}), "equal order",
         ["kernels"]),
        (apart(inputs=[("x", "batch 0", ["row 0"])], grads="other"), "restarts", ["data order"]),
        (apart(inputs=[("x", "mixed", ["row 3", "row 6"])]), "restarts", ["data order"]),
        (apart(inputs=[("x", "noisy", ["unseen"])]), "restarts", ["samples"]),
        (
            apart(state="", state_kinds=[], rng={"torch": "fresh"}, grads="other"),
            "loses",
            ["optimizer", "RNG"],
        ),
        (apart(), "equal order", ["kernels"]),
        (apart(grads="other", norm=1.001), "equal order", ["kernels"]),
        (apart(grads="other", norm=1.5), "restarts", ["hidden state"]),
    ],
)  # fmt: skip
def test_the_first_step_that_differs_names_level_and_cause(
    steps: list[CheckedStep], level: str, kinds: list[str]
) -> None:
    judgement = Resumed(files=OTHER).judged(steps)
    assert found(judgement) == (level, kinds)
    assert judgement.difference is not None
    assert (judgement.difference.tensor, judgement.difference.step) == ("net.weight", 9)


def test_steps_done_twice_or_skipped_are_lost() -> None:
    again = [replace(step(8), inputs=[("x", "batch 0", [])]), *apart()[1:], step(20), step(21)]
    judgement = Resumed(files=OTHER).judged(again)
    assert judgement.level == "loses"
    assert judgement.causes[0].kind == "steps repeated"
    assert "batch of step 1 again" in judgement.causes[0].text
    skipped = Resumed(files=OTHER).judged(apart()[:-3])
    assert skipped.causes[0].kind == "steps skipped"


def test_data_computed_by_the_model_differ_without_being_another_order() -> None:
    steps = apart(state="", state_kinds=[])
    computed = [replace(one, inputs=[*one.inputs, ("y", f"{one.before}", [])]) for one in steps[1:]]
    assert found(Resumed(files=OTHER).judged([steps[0], *computed]))[1] == ["optimizer"]


def test_rank_0s_random_state_on_another_rank_is_named() -> None:
    def other_rank(k: int) -> CheckedStep:
        return replace(step(k), rng={"torch": f"rank 1 rng {k}"}, grads=f"rank 1 grads {k}")

    whole = replace(WHOLE, lanes={**WHOLE.lanes, "1": [other_rank(k) for k in range(STEPS)]})
    first = [replace(one, grads="averaged", norm=2.0) for one in apart()]
    second = [replace(one, grads="of rank 0's masks") for one in apart()]
    run = replace(whole, lanes={"0": first, "1": second}, files=OTHER)
    stop = StoppedRun(by="kill", place="", steps=10, files=values(), resumed=run)
    # Both come to other parameters, since gradients are averaged: the one whose random state is
    # wrong says why.
    judgement = verdict.judged(whole, stop)
    assert judgement.level == "restarts"
    assert [cause.kind for cause in judgement.causes] == ["RNG"]
    assert "rank 0's RNG on all ranks" in judgement.causes[0].text


@pytest.mark.parametrize(
    ("changed", "level", "kind"),
    [
        ({"ema.weight": ["torch.float32", [2], "x"]}, "loses", "values beside the model"),
        ({"rng": ["torch.uint8", [5056], "x"]}, "restarts", "RNG"),
        ({"step": ["int", [], STEPS + 3]}, "loses", "counter"),
    ],
)
def test_values_beside_the_weights_may_differ_alone(
    changed: dict[str, Any], level: str, kind: str
) -> None:
    judgement = Resumed(files=values(**changed)).judged()
    assert found(judgement) == (level, [kind])
    assert judgement.difference is not None
    assert judgement.difference.tensor == next(iter(changed))


def test_a_resumed_command_that_fails_loses_and_names_the_torn_file() -> None:
    torn = {"last.pt": CheckpointFile(written=1.0, format="torch_file", error="torn")}
    judgement = Resumed(at_stop=torn).judged([], status=1)
    assert found(judgement) == ("loses", ["torn file"])
    assert found(Resumed().judged([], status=1)) == ("loses", ["failed"])


def test_whole_runs_that_differ_have_no_level_and_times_may_differ() -> None:
    timed = replace(WHOLE, files=values(elapsed=["float", [], 1.5]))
    later = replace(WHOLE, files=values(elapsed=["float", [], 1.6]))
    assert verdict.difference_of_whole_runs(timed, later) is None
    assert ("last.pt", "elapsed") in verdict.volatile_values(timed, later)
    seeded = replace(WHOLE, lanes={"0": [step(k, " x") for k in range(STEPS)]}, files=OTHER)
    difference = verdict.difference_of_whole_runs(WHOLE, seeded)
    assert difference is not None
    assert (difference.tensor, difference.step) == ("net.weight", 1)
    assert "kernel" in verdict.why_whole_runs_differ(WHOLE, seeded)
    clock = [replace(one, rng={"torch": "other"}) for one in seeded.lanes["0"]]
    cause = verdict.why_whole_runs_differ(WHOLE, replace(WHOLE, lanes={"0": clock}))
    assert "clock" in cause


def test_weights_that_are_no_numbers_are_found() -> None:
    assert verdict.not_finite_from(WHOLE) is None
    steps = [replace(step(k), finite=k < 5) for k in range(STEPS)]
    assert verdict.not_finite_from(replace(WHOLE, lanes={"0": steps})) == 6


def test_other_scales_explain_other_numbers_of_steps() -> None:
    judgement = Resumed(files=OTHER).judged(apart(scale=2.0, grads="other")[:-2])
    assert found(judgement) == ("loses", ["scaler"])


def test_files_alone_say_whether_saves_were_made_again() -> None:
    whole = CheckedRun(lanes={}, files=values(), saves=tuple(Save(0, 0) for _ in range(6)))
    rest = replace(whole, saves=whole.saves[:3])
    stop = StoppedRun(by="kill", place="", steps=0, saves=3, files=values(), resumed=rest)
    assert found(verdict.judged(whole, stop)) == ("exact", [])
    assert found(verdict.judged(whole, replace(stop, resumed=whole)))[0] == "loses"
    other = replace(rest, files=OTHER)
    assert found(verdict.judged(whole, replace(stop, resumed=other)))[0] == "restarts"


def test_a_chain_of_changes_is_one_save_and_a_save_after_each_step_is_many() -> None:
    def run(changed_after: set[int]) -> tuple[Save, ...]:
        count, steps = 0, []
        for k in range(STEPS):
            changed = ["last.pt"] if k in changed_after else []
            count += bool(changed)
            steps.append(replace(step(k), folder=str(count), changed=["log.txt", *changed]))
        return saves_of([], steps, str(count + (STEPS in changed_after)), values())

    assert [(s.begun, s.ended) for s in run({4, 5, 12, 20})] == [(4, 5), (12, 12), (20, 20)]
    assert len(run(set(range(1, STEPS + 1)))) == STEPS


def test_changes_without_steps_are_grouped_by_pauses() -> None:
    events = [FolderEvent(t, 2, "x") for t in (1.0, 1.05, 2.0, 3.0, 3.01)]
    assert [round(save.seconds, 2) for save in saves_of(events, [])] == [0.05, 0.0, 0.01]


def test_stops_are_drawn_within_and_between_saves_and_earlier_after_a_late_one() -> None:
    def draw(number: int, tries: int = 0) -> Any:
        return drawn_stop(WHOLE, number, tries, np.random.default_rng([7, number]))

    for number in range(6):
        stop = draw(number)
        assert stop == draw(number)
        assert EVERY < stop.step < STEPS
        assert stop.within_save == (number % 2 == 1) == (stop.step % EVERY == 0)
    assert draw(0, tries=3).step <= 5
    assert drawn_stop(replace(WHOLE, lanes={"0": [step(0)]}), 0, 0, np.random.default_rng()) is None


def test_the_last_save_is_compared_with_all_its_files() -> None:
    times = {"rank0.pt": 8.5, "rank1.pt": 8.6, "step4.pt": 4.5, "step8.pt": 8.5, "best.pt": 4.5}
    files = {name: CheckpointFile(written=t, format="x") for name, t in times.items()}
    assert set(last_files(files, WHOLE.first)) == {"rank0.pt", "rank1.pt", "step8.pt", "best.pt"}


class Evil:
    """Unpickled, it would write a file."""

    def __reduce__(self) -> Any:
        return (open, ("evil", "w"))


def test_pickles_and_arrays_are_read_without_running_their_code(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"evil": Evil(), "n": 3, "w": np.ones(4)}))
    whole = pickle.dumps({"w": np.ones(400)})
    (tmp_path / "torn.pkl").write_bytes(whole[: len(whole) // 2])
    np.savez(tmp_path / "b.npz", w=np.ones(3))
    (tmp_path / "step_4").mkdir()
    (tmp_path / "step_4" / "__0_0.distcp").write_bytes(b"x")
    (tmp_path / "log.txt").write_text("no checkpoint")
    program = [sys.executable, str(INJECTED / "read_checkpoints.py"), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, check=True, cwd=tmp_path)
    (entries,) = json.loads(done.stdout)
    assert not (tmp_path / "evil").exists()
    assert entries["a.pkl"]["values"]["n"] == ["int", [], 3]
    assert entries["a.pkl"]["values"]["w"][:2] == ["array float64", [4]]
    assert entries["b.npz"]["values"]["w"][1] == [3]
    assert entries["torn.pkl"]["error"]
    assert entries["step_4"]["error"] == "no .metadata"
    assert "log.txt" not in entries
