"""Every generator by name: its options are a schema of ``schema_workload.py``."""

from __future__ import annotations

from typing import Final

GENERATORS: Final = ("hare-mix", "gavel-mix", "sjf-bco")
