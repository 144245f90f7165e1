"""Causes that a check of a resume names, from made-up evidence of habits that scripts have."""

from __future__ import annotations

from types import SimpleNamespace
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
    judged_of,
    step,
    values,
)
from msgspec.structs import replace

from warren.serve.certificate import verdict
from warren.serve.certificate.certificate import GRACE_S, CertificateCheck, _Part
from warren.serve.certificate.evidence import (
    CheckedRun,
    CheckedStep,
    CheckpointFile,
    StoppedRun,
)
from warren.serve.certificate.saves import PlannedStop


def test_a_save_within_a_step_has_another_text_than_a_random_state_that_is_not_saved() -> None:
    masks = Resumed(files=OTHER).judged(apart(rng={"torch": "rng 8 after its masks"}, grads="o"))
    assert "from within a step" in masks.causes[0].text
    fresh = Resumed(files=OTHER).judged(apart(rng={"torch": "fresh"}, grads="o"))
    assert "RNG not restored (torch)" in fresh.causes[0].text


def test_a_state_is_looked_for_at_the_first_step_of_each_optimizer() -> None:
    whole = replace(WHOLE, lanes={"0": [replace(step(k), optimizer=k % 2) for k in range(STEPS)]})
    fresh = replace(step(9), optimizer=1, state="", state_kinds=[], after="o")
    steps = [whole.lanes["0"][8], fresh]
    steps += [step(k, " other") for k in range(10, STEPS)]
    assert found(judged_of(whole, steps)) == ("loses", ["optimizer"])
    # The resumed run counts its optimizers by their first steps: the second one comes first.
    later = [replace(step(k), optimizer=(k + 1) % 2) for k in range(9, STEPS)]
    same = judged_of(whole, later, newest=(9,), resumed_files=values())
    assert (found(same), same.began) == (("exact", []), 9)


def test_gradients_that_were_added_up_before_a_save_within_a_step_are_lost() -> None:
    def parts(k: int, first: int = 0) -> list[tuple[str, str, list[str]]]:
        return [("x", f"part {k}.{j}", []) for j in range(first, 4)]

    whole = replace(WHOLE, lanes={"0": [replace(step(k), inputs=parts(k)) for k in range(STEPS)]})
    steps = [replace(one, inputs=parts(8 + k)) for k, one in enumerate(apart(grads="fewer"))]
    steps[0] = replace(steps[0], inputs=parts(8, 3), rng={"torch": "later"})
    judgement = judged_of(whole, steps)
    assert found(judgement) == ("loses", ["accumulation"])
    assert "begins after 3 of its 4 inputs" in judgement.causes[0].text


def test_numbers_of_parameters_and_old_files_are_no_place_where_a_run_went_on() -> None:
    four = ["int", [], 4]
    ids = values(**{"opt.param_groups.0.params.4": four, "steps_per_epoch": four})
    assert found(Resumed(began=4, at_stop=ids).judged())[1] == ["checkpoint not used"]
    old = {f"step-{k}.pt": values(step=["int", [], k])["last.pt"] for k in (4, 8)}
    assert found(Resumed(began=4, at_stop=old).judged())[1] == ["checkpoint not used"]
    late = values(step=["int", [], 4])
    assert found(Resumed(began=4, at_stop=late).judged()) == ("exact", [])


def test_two_files_of_two_saves_explain_a_wrong_count() -> None:
    file = values()["last.pt"]
    saved = {"weights.pt", "rest.pt"}
    steps = [replace(step(k), changed=[] if k % EVERY else sorted(saved)) for k in range(STEPS)]
    whole = replace(WHOLE, lanes={"0": steps}, files=dict.fromkeys(saved, file))
    again = [*apart(inputs=[("x", "batch 4", [])], grads="o"), *(step(k) for k in range(20, 24))]
    pair = judged_of(whole, again, written={"weights.pt": 8, "rest.pt": 4})
    assert found(pair) == ("loses", ["torn pair"])
    assert "weights.pt is of step 8, rest.pt of step 4" in pair.causes[0].text
    whole_pair = judged_of(whole, again, written={"weights.pt": 8, "rest.pt": 8})
    assert "steps repeated" in found(whole_pair)[1]
    best = replace(whole, lanes={"0": [replace(one, changed=["rest.pt"]) for one in steps]})
    apart_by_habit = judged_of(best, again, written={"weights.pt": 4, "rest.pt": 8})
    assert "steps repeated" in found(apart_by_habit)[1]


def test_notes_of_a_run_may_differ_and_a_name_may_hold_a_time() -> None:
    whole = replace(WHOLE, files=values(attempt=["int", [], 1]))
    again = values(attempt=["int", [], 2], **{"time.elapsed_s": ["float", [], 1.5]})
    steps = [step(k) for k in range(8, STEPS)]
    assert found(judged_of(whole, steps, resumed_files=again)) == ("exact", [])
    timed = replace(WHOLE, files={"ckpt-171.pt": values()["last.pt"]})
    one, other = values()["last.pt"], OTHER["last.pt"]
    later = {"ckpt-93.pt": other, "ckpt-180.pt": one}
    assert found(judged_of(timed, steps, resumed_files=later)) == ("exact", [])
    assert verdict.difference_of_whole_runs(timed, replace(timed, files=later)) is None
    wrong = {"ckpt-93.pt": one, "ckpt-180.pt": other}
    assert judged_of(timed, steps, resumed_files=wrong).level == "loses"


def test_checkpoints_of_two_steps_are_not_compared() -> None:
    """Saves by the clock come after other steps in each run."""

    def run(began: int, saved: int, content: dict[str, CheckpointFile]) -> CheckedRun:
        changed = {k: ["last.pt"] if k == saved else [] for k in range(STEPS)}
        steps = [replace(step(k), changed=changed[k]) for k in range(began, STEPS)]
        file = replace(content["last.pt"], written=saved - 0.5)
        return replace(WHOLE, lanes={"0": steps}, files={"last.pt": file})

    whole = run(0, 11, values())
    for saved, level in ((14, "exact"), (11, "loses")):
        resumed = run(8, saved, OTHER)
        stop = StoppedRun(by="kill", place="", steps=10, newest=(8,), files={}, resumed=resumed)
        assert verdict.judged(whole, stop).level == level
    assert verdict.difference_of_whole_runs(whole, run(0, 14, OTHER)) is None
    assert verdict.difference_of_whole_runs(whole, run(0, 11, OTHER)) is not None


def test_a_hidden_state_is_named_where_the_files_hold_an_average() -> None:
    whole = replace(WHOLE, files=values(**{"ema.weight": ["torch.float32", [2], "e"]}))
    judgement = judged_of(whole, apart(grads="other", norm=1.5))
    assert found(judgement) == ("loses", ["values beside the model"])
    assert "'ema.weight'" in judgement.causes[0].text


def test_a_folder_without_all_its_files_is_named_where_the_resume_fails() -> None:
    file = values()["last.pt"]
    names = [f"ckpt_{k}/{part}.bin" for k in (4, 8) for part in ("net", "opt")]
    whole = replace(WHOLE, files=dict.fromkeys(names, file))
    at_stop = {"ckpt_4/net.bin": file, "ckpt_4/opt.bin": file, "ckpt_8/net.bin": file}
    run = replace(whole, lanes={"0": []}, status=1, last_line="no file")
    stop = StoppedRun(by="kill", place="within a save", steps=8, files=at_stop, resumed=run)
    judgement = verdict.judged(whole, stop)
    assert found(judgement) == ("loses", ["torn file"])
    assert "ckpt_8 (within a save)" in judgement.causes[0].text


def test_an_order_that_differs_without_a_random_state_is_laid_to_hashes_or_files() -> None:
    mixed = [replace(step(k, " x"), inputs=[("x", f"other {k}", [])]) for k in range(STEPS)]
    cause = verdict.why_whole_runs_differ(WHOLE, replace(WHOLE, lanes={"0": mixed}))
    assert "PYTHONHASHSEED" in cause


def test_a_short_run_that_ignores_its_signal_is_killed_well_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = CertificateCheck(["x"])
    graces: list[float] = []

    def try_stop(whole: CheckedRun, by: str, plan: Any) -> Any:
        graces.append(check._grace_now_s)
        left_s = 0.6 * (1 - plan.step / STEPS)  # most of the run is its start
        check._asked_s = min(left_s, graces[-1])
        return None if graces[-1] >= left_s else "stopped"

    monkeypatch.setattr(check, "_try_stop", try_stop)
    slow = replace(WHOLE, seconds=9.0)
    for number in range(3):
        chance = np.random.default_rng(number)
        assert check._one_stop(slow, "signal", number, chance, twice=True) is not None
    assert graces[:2] == [GRACE_S, GRACE_S]
    assert graces[2] < 0.2


def test_a_resume_that_is_not_exact_is_judged_before_its_second_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def part(steps: list[CheckedStep], before: int = 0) -> Any:
        run = SimpleNamespace(lanes=lambda: {"0": steps}, steps_seen=lambda: len(steps), status=-9)
        return _Part(SimpleNamespace(run=run, checkpoints=None), before)  # type: ignore[arg-type]

    check = CertificateCheck(["x"])
    monkeypatch.setattr(check, "_read", lambda _: [values()])
    first = part([step(k) for k in range(10)])
    exact = part([step(k) for k in range(8, 12)], before=8)
    masks = part(apart(rng={"torch": "fresh"}, grads="other")[:4], before=8)
    assert exact.follows(WHOLE)
    assert not masks.follows(WHOLE)
    plan = PlannedStop(10, False, 0.0, again=4)
    stop = check._apart_already(WHOLE, "kill", plan, first, masks)
    assert (stop.steps, stop.place) == (10, "between saves")
    assert found(verdict.judged(WHOLE, stop)) == ("restarts", ["RNG"])
