"""The script of docs/guides/porting.md and the class made of it learn the same task as well."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from warren.live.oracle.plain import train
from warren.live.training.app.app_loader import build_app
from warren.runs.inputs import run_of

pytestmark = pytest.mark.slow

pytest.importorskip("sklearn", reason="scikit-learn (extra: examples) is not installed")

PORTING = Path(__file__).resolve().parents[2] / "examples" / "porting"


def test_script_and_class_come_to_the_same_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()):
        by_script = runpy.run_path(str(PORTING / "script.py"))["main"]()
    (job,) = run_of(str(PORTING / "run.yaml"), None, [], history=False).workload.jobs
    result = train(build_app(job, str(PORTING)), job)
    last = result.metrics[max(result.metrics)]["accuracy"]
    assert min(by_script, last) > 0.96
    assert result.rounds % 22 == 0
    assert (last >= 0.985) == (result.rounds < 660)


def test_what_the_page_names_is_in_both_files() -> None:
    page = (PORTING.parents[1] / "docs" / "guides" / "porting.md").read_text()
    script, made = ((PORTING / name).read_text() for name in ("script.py", "app.py"))
    run = (PORTING / "run.yaml").read_text()
    for words in ("torch.manual_seed(1)", "CosineAnnealingLR(optimizer, ", "1.0)", "0.985"):
        assert words in page
        assert words in script
    for words in ("clip_norm = 1.0", "rounds: int = 660"):
        assert words in page
        assert words in made
    for words in ("seed: 1", "rounds: 660", "{every: 22}", "reaches: 0.985}"):
        assert words in page
        assert words in run
