"""Forecasts of a service: put on record soon after a submission, and shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from api_world import _in_this_thread, submitted, world
from fake_service import TestJournal, all_ended, daemon_of, fake_hosts, play, submit_one

from warren.serve.daemon import foresight
from warren.serve.hosts.fake import Played
from warren.serve.queue.forecasts import Held
from warren.serve.records.events import Foreseen


def test_a_daemon_puts_forecasts_of_new_jobs_on_record(tmp_path: Path) -> None:
    async def main() -> None:
        with TestJournal(tmp_path / "queue.db") as journal:
            hosts = fake_hosts(devices=1, plays=lambda _: Played(60.0))
            daemon = daemon_of(journal, hosts, foresees=True)
            await daemon.start()
            await asyncio.sleep(1)
            jobs = [submit_one(daemon, time_limit_s=120) for _ in range(3)]
            await asyncio.sleep(20)
            found = [one for one in journal.events() if isinstance(one, Foreseen)]
            assert {one.job for one in found} == {*jobs[1:]}
            for one in found:
                assert 0 < one.start.low_s <= one.start.expected_s <= one.start.high_s
                assert one.end.expected_s > one.start.expected_s
            await all_ended(daemon)
            assert daemon.queue.forecasts.starts.held(daemon.now_ns()).of == 2
            assert daemon_of(journal, hosts).queue.forecasts.starts.held(0).of == 2
            await daemon.stop()

    with patch.object(asyncio, "to_thread", _in_this_thread):
        play(main())


def test_a_forecast_that_fails_is_named_and_stops_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        lines: list[str] = []
        with TestJournal(tmp_path / "queue.db") as journal:
            hosts = fake_hosts(devices=1, plays=lambda _: Played(60.0))
            daemon = daemon_of(journal, hosts, foresees=True, say=lines.append)
            await daemon.start()
            for _ in range(2):
                submit_one(daemon)
            await asyncio.sleep(20)
            assert any("a forecast is left out" in line and "no idea" in line for line in lines)
            await all_ended(daemon)
            await daemon.stop()

    def fails(*_: object) -> None:
        raise ValueError("no idea")

    with (
        patch.object(asyncio, "to_thread", _in_this_thread),
        patch.object(foresight, "outlook", fails),
    ):
        play(main())


def test_show_and_the_page_say_when_a_job_is_expected_to_start_and_end() -> None:
    async def main() -> None:
        async with world(devices=1) as w:
            ana = w.local("ana")
            first = await submitted(ana)
            second = await submitted(ana)
            held = await submitted(ana, held=True)
            await asyncio.sleep(1)
            waits = (await ana.get(f"/v1/jobs/{second}")).json()
            low, high = waits["expected_start_80_s"]
            assert low <= waits["expected_start_s"] <= high
            low, high = waits["expected_end_80_s"]
            assert low <= waits["expected_end_s"] <= high
            assert waits["starts_held"] is None
            runs = (await ana.get(f"/v1/jobs/{first}")).json()
            assert runs["expected_start_s"] is None
            assert runs["expected_end_s"] > waits["submitted_s"]
            stays = (await ana.get(f"/v1/jobs/{held}")).json()
            assert stays["expected_end_s"] is None
            page = (await ana.get(f"/jobs/{second}")).text
            assert "Expected start" in page
            assert "80 % interval: " in page
            with patch.object(w.daemon.queue.forecasts.starts, "held", lambda _: Held(79, 100)):
                assert "held for 79 % of the last 100 starts" in (await ana.get("/")).text
                shown = (await ana.get(f"/v1/jobs/{second}")).json()
            assert shown["starts_held"] == [79, 100]

    play(main())


def test_a_forecast_is_shown_again_for_a_while() -> None:
    async def shows(client: httpx.AsyncClient, job: str) -> float:
        found: float = (await client.get(f"/v1/jobs/{job}")).json()["expected_start_s"]
        return found

    async def main() -> None:
        looks: list[object] = []

        def counted(*given: object) -> object:
            looks.append(given)
            return made(*given)

        made = foresight.outlook
        async with world(devices=1) as w:
            ana = w.local("ana")
            await submitted(ana)
            second = await submitted(ana)
            await asyncio.sleep(1)
            with patch.object(foresight, "outlook", counted):
                before = await shows(ana, second)
                await asyncio.sleep(foresight.FRESH_S - 5)
                assert await shows(ana, second) == pytest.approx(before, rel=0, abs=1)
                assert len(looks) == 1
                await asyncio.sleep(10)
                await shows(ana, second)
                assert len(looks) == 2

    play(main())
