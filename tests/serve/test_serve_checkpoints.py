"""Which checkpoints of a folder are complete, and from which one a command goes on."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from warren.serve.resume.checkpoints import complete_checkpoints, latest
from warren.serve.resume.starts import again, measured


def zip_file(path: Path) -> Path:
    """A file as ``torch.save`` writes it, as far as its ends go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 1000)
    return path


def tensors(path: Path, missing: int = 0) -> Path:
    """A safetensors file, without its last bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = json.dumps({"a": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}).encode()
    path.write_bytes((len(header).to_bytes(8, "little") + header + bytes(8))[: -missing or None])
    return path


def cut(path: Path) -> Path:
    """Take the end of a file away, as a kill within a save does."""
    path.write_bytes(path.read_bytes()[:-10])
    return path


def hf(folder: Path) -> Path:
    """A folder as HuggingFace's Trainer writes it."""
    tensors(folder / "model.safetensors")
    zip_file(folder / "optimizer.pt")
    (folder / "training_args.bin").write_bytes(b"x")
    (folder / "trainer_state.json").write_text("{}")
    return folder


def found(folder: Path) -> list[str]:
    return sorted(os.path.relpath(one.path, folder) for one in complete_checkpoints(str(folder)))


def newest(folder: Path) -> str | None:
    path = latest(complete_checkpoints(str(folder)))
    return None if path is None else os.path.relpath(path, folder)


def test_files_count_if_they_have_their_end(tmp_path: Path) -> None:
    zip_file(tmp_path / "whole.pt")
    cut(zip_file(tmp_path / "torn.pt"))
    tensors(tmp_path / "whole.safetensors")
    tensors(tmp_path / "torn.safetensors", missing=1)
    (tmp_path / "bad.safetensors").write_bytes(b"\0" * 8)
    (tmp_path / "old.ckpt").write_bytes(b"\x80\x02pickled")
    (tmp_path / "empty.pt").touch()
    (tmp_path / "being-written.pt.tmp").write_bytes(b"x")
    (tmp_path / "log.txt").write_text("x")
    assert found(tmp_path) == ["old.ckpt", "whole.pt", "whole.safetensors"]


def test_a_folder_of_huggingface_counts_when_its_trainer_has_finished_it(tmp_path: Path) -> None:
    hf(tmp_path / "checkpoint-10")
    (hf(tmp_path / "checkpoint-20") / "checkpoint-is-incomplete.txt").touch()
    (hf(tmp_path / "checkpoint-30") / "trainer_state.json").unlink()
    cut(hf(tmp_path / "checkpoint-40") / "optimizer.pt")
    assert found(tmp_path) == ["checkpoint-10"]


def test_a_folder_of_accelerate_counts_with_its_random_states(tmp_path: Path) -> None:
    for name in ("checkpoint_0", "checkpoint_1"):
        tensors(tmp_path / name / "model.safetensors")
        (tmp_path / name / "optimizer.bin").write_bytes(b"x")
    (tmp_path / "checkpoint_0" / "random_states_0.pkl").write_bytes(b"x")
    assert found(tmp_path) == ["checkpoint_0"]


def test_a_distributed_checkpoint_counts_with_its_metadata(tmp_path: Path) -> None:
    for name in ("step_10", "step_20", "named"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__0_0.distcp").write_bytes(b"x")
    for name in ("step_10", "named"):
        (tmp_path / name / ".metadata").write_bytes(b"x")
    assert found(tmp_path) == ["named", "step_10"]
    assert found(tmp_path / "named") == ["."]


def test_a_numbered_folder_is_one_checkpoint_if_all_its_files_are_whole(tmp_path: Path) -> None:
    for step in (1, 2):
        zip_file(tmp_path / f"global_step{step}" / "model.pt")
        zip_file(tmp_path / f"global_step{step}" / "optim.pt")
    cut(tmp_path / "global_step2" / "optim.pt")
    (tmp_path / "epoch_3").mkdir()
    (tmp_path / "epoch_3" / "notes.txt").write_text("no checkpoint")
    assert found(tmp_path) == ["global_step1"]


def test_checkpoints_of_lightning_are_found_below_their_versions(tmp_path: Path) -> None:
    inner = tmp_path / "lightning_logs" / "version_0" / "checkpoints"
    zip_file(inner / "epoch=1-step=20.ckpt")
    zip_file(tmp_path / "hpc_ckpt_1.ckpt")
    assert len(found(tmp_path)) == 2


def test_what_is_hidden_a_pipe_or_goes_round_is_passed_over(tmp_path: Path) -> None:
    zip_file(tmp_path / ".cache" / "kernel.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "gone.pt").symlink_to(tmp_path / "nothing")
    assert found(tmp_path) == []
    assert found(tmp_path / "no such folder") == []


def at(path: Path, time_s: float) -> None:
    os.utime(path, (time_s, time_s))


def test_of_numbered_names_the_highest_counts_and_of_others_the_last_written(
    tmp_path: Path,
) -> None:
    for step in (9, 10, 100):
        at(zip_file(tmp_path / f"model_{step}.pt"), 1000 - step)  # copied in some order
    assert newest(tmp_path) == "model_100.pt"
    at(zip_file(tmp_path / "best.pt"), 500)
    assert newest(tmp_path) == "model_100.pt"
    at(zip_file(tmp_path / "last.ckpt"), 2000)
    assert newest(tmp_path) == "last.ckpt"


def test_a_folder_comes_before_files_beside_it(tmp_path: Path) -> None:
    hf(tmp_path / "checkpoint-5")
    at(tensors(tmp_path / "model.safetensors"), 4e9)  # the result, saved last
    assert newest(tmp_path) == "checkpoint-5"
    assert newest(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("command", "template", "wanted"),
    [
        (("python", "t.py"), "--from {latest}", ("python", "t.py", "--from", "{}")),
        (("python", "t.py"), "--resume", ("python", "t.py", "--resume")),
        (("python", "t.py"), "ckpt='{latest}'", ("python", "t.py", "ckpt={}")),
        (("sh", "-c", "cd x; python t.py"), "--from {latest}", "cd x; python t.py --from {}"),
        (("python", "t.py"), "", ("python", "t.py")),
    ],
)
def test_the_words_of_a_resume_stand_behind_the_command_or_its_line(
    tmp_path: Path, command: tuple[str, ...], template: str, wanted: tuple[str, ...] | str
) -> None:
    path = str(zip_file(tmp_path / "model.pt"))
    made, checkpoint = again(command, template, str(tmp_path))
    if isinstance(wanted, str):
        wanted = ("sh", "-c", wanted)
    assert made == tuple(word.replace("{}", path) for word in wanted)
    assert checkpoint == (path if template else "")


def test_without_a_complete_checkpoint_a_command_begins_as_it_did(tmp_path: Path) -> None:
    cut(zip_file(tmp_path / "model.pt"))
    assert again(("t",), "--from {latest}", str(tmp_path)) == (("t",), "")


def test_a_save_counts_if_it_ended_after_the_signal(tmp_path: Path) -> None:
    at(zip_file(tmp_path / "model_1.pt"), 160.0)
    assert measured(str(tmp_path), 100, 150, 165) == (True, 10.0, None)
    assert measured(str(tmp_path), 100, 200, 260) == (False, None, 100.0)


def test_what_was_saved_before_the_attempt_began_is_not_lost_by_it(tmp_path: Path) -> None:
    at(zip_file(tmp_path / "model_1.pt"), 50.0)
    assert measured(str(tmp_path), 100, 150, 160) == (False, None, 60.0)
    assert measured(str(tmp_path / "nothing"), 100, 150, 160) == (False, None, 60.0)
