"""The agent's treatment of a spool that other accounts write into; no report here reaches the database."""

import logging
import os
from pathlib import Path

import pytest

from fetchwork.agent import replay
from fetchwork.agent.replay import Replay
from fetchwork.handlers.host.runs import Runs
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Request

REPORT = Request("job_exit", b"ExitCode = 0\n", keyword="NOBODYS", arg="exit")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(str(tmp_path / "spool"))
    made.make()
    return made


async def delivered(spool: Spool, caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log of a host without keywords that delivers."""
    with caplog.at_level(logging.INFO):
        await Replay(spool, {}, frozenset()).deliver(Runs())
    return [record.getMessage() for record in caplog.records]


async def test_report_moved_aside_at_its_delivery_is_told(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    name = os.path.basename(write_report(spool.directory, REPORT))
    assert await delivered(spool, caplog) == [
        f'spool_rejected file={name} uid={os.geteuid()} reason="its keyword is not in the host file"'
    ]


async def test_files_moved_aside_are_bounded_and_the_rest_is_deleted_in_one_line(
    spool: Spool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "KEPT_BAD", 5)
    # they are read bit by bit, and the report behind them even so
    for number in range(1200):
        Path(spool.directory, f"{number:04}.report").write_bytes(b"garbage")
    write_report(spool.directory, REPORT)
    lines = await delivered(spool, caplog)
    assert [line for line in lines if not line.startswith("spool_rejected ")] == [
        "spool_bad_deleted files=995 kept=5",
        "spool_bad_deleted files=201 kept=5",
    ]
    assert os.listdir(spool.directory) == ["bad"]
    assert len(os.listdir(os.path.join(spool.directory, "bad"))) == 5


async def test_report_that_can_not_be_moved_aside_ends_the_delivery(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    write_report(spool.directory, REPORT)
    os.rmdir(os.path.join(spool.directory, "bad"))
    (line,) = await delivered(spool, caplog)
    assert "it stays where it is: No such file or directory" in line
