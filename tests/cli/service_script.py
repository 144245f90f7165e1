"""What a service answers to commands under test."""

from __future__ import annotations

from typing import Any

from scripted_service import Answer, Asked

ROW = {
    "id": "12", "name": "train", "user": "ana", "state": "queued", "reason": "devices: needs 2",
    "submitted_s": 1e9, "started_s": None, "ended_s": None, "expected_s": None,
    "priority": 0, "array": None, "devices_wanted": 2, "device_type": "H100", "host": None,
    "attempt": 0,
}  # fmt: skip
SHOWN = {
    **ROW, "exit_code": None, "devices": ["GPU-1", "GPU-2"], "log": "", "command": ["a", "b c"],
    "folder": "/x", "share": False, "time_limit_s": 14400, "memory_bytes": 16 * 10**9,
    "after": [{"job": "7", "when": "any"}], "retries": 0, "grace_s": 10, "cancelled_by": None,
    "attempts": [], "environment": {"A": "b"}, "expected_start_s": None,
    "expected_start_80_s": None, "expected_end_s": None, "expected_end_80_s": None,
    "starts_held": None,
}  # fmt: skip


class Script:
    """What the service answers, by method and path; a list is answered one after another."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def __call__(self, asked: Asked) -> Answer:
        found = self.answers.get(f"{asked.method} {asked.path.partition('?')[0]}")
        if isinstance(found, list) and found and isinstance(found[0], tuple | bytes):
            found = found.pop(0)
        if found is None:
            return 404, {"error": f"there is no {asked.path}", "kind": "unknown"}
        return found if isinstance(found, tuple | bytes) else (200, found)


ENDED = {**SHOWN, "state": "finished", "exit_code": 0}
