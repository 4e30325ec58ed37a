"""The agent's log lines, and values that must never be in them."""

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fetchwork.log as log  # noqa: PLR0402  # the package has another log, of the bindings

TOKEN = "edc2d9bf-cff4-4e01-a708-e7f96af06707"


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "agent.log"
    handler = log.configure("debug", file)
    yield file
    logging.getLogger("fetchwork").removeHandler(handler)
    handler.close()
    logging.getLogger("fetchwork").propagate = True


def test_event_comes_first_then_fields_in_their_order(logged: Path) -> None:
    log.event(
        logging.getLogger("fetchwork.test"),
        logging.INFO,
        "fetch_work",
        slot="slot1@ep",
        job="42.0",
        gone=None,
        ms=6,
    )
    assert logged.read_text().endswith(" INFO fetch_work slot=slot1@ep job=42.0 ms=6\n")


def test_a_person_can_cause_a_line_and_not_a_flood(logged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    logger = logging.getLogger("fetchwork.test")

    def told() -> list[str]:
        return [text.split(" ", 2)[2] for text in logged.read_text().splitlines()]

    for _ in range(10_000):
        log.event(logger, logging.WARNING, "denied", person=7, uid=7)
    assert told() == ["denied uid=7"] * log.BURST
    # neither other accounts nor other events lose lines by it
    log.event(logger, logging.WARNING, "denied", person=8, uid=8)
    log.event(logger, logging.WARNING, "refused", person=7, uid=7)
    log.event(logger, logging.WARNING, "denied", uid=7)
    assert told()[log.BURST :] == ["denied uid=8", "refused uid=7", "denied uid=7"]
    now += log.EVERY_S
    for _ in range(5):
        log.event(logger, logging.WARNING, "denied", person=7, uid=7)
    assert told()[log.BURST + 3 :] == [f"denied uid=7 withheld={10_000 - log.BURST}"]


def test_no_more_persons_are_remembered_than_there_is_room_for(
    logged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_MOST_KNOWN", 5)
    for number in range(100):
        log.event(logging.getLogger("fetchwork.test"), logging.WARNING, "denied", person=number)
    assert len(log._caused) == 5


def test_value_with_blanks_is_quoted_and_stays_one_line(logged: Path) -> None:
    assert log.line("x", {"reason": 'a "b"\nroot=1'}) == 'x reason="a \\"b\\" root=1"'
    assert len(log.line("x", {"reason": "a" * 10_000})) < 400


@pytest.mark.parametrize(
    "secret",
    [
        f"run 7 token {TOKEN}",
        f'FetchWorkToken = "{TOKEN}"',
        f"token={TOKEN.upper()}",
        "host=db password=hunter2 user=x",
        "password = 'hun\\'ter2 x'",
        "postgresql://agent:hunter2@db/fetchwork",
        'ClaimId = "<127.0.0.1:9618>#1795221222#1#hunter2"',
        "claim <127.0.0.1:9618?addrs=x>#1795221222#1#[Integrity;hunter2]deadbeef",
    ],
)
def test_no_secret_gets_into_the_log(logged: Path, secret: str) -> None:
    logger = logging.getLogger("fetchwork.test")
    log.event(logger, logging.ERROR, "leak", problem=secret)
    logger.error("%s", secret)
    try:
        raise RuntimeError(secret)
    except RuntimeError:
        logger.exception("failed")
    text = logged.read_text().lower()
    assert "hunter2" not in text
    assert "ter2 x" not in text
    assert TOKEN not in text
    assert text.count("error") >= 3


def test_traceback_is_indented_so_that_a_line_is_an_event(logged: Path) -> None:
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        logging.getLogger("fetchwork.test").exception("failed")
    first, *rest = logged.read_text().splitlines()
    assert "ERROR failed" in first
    assert rest and all(line.startswith("    ") for line in rest)


def test_reopen_writes_on_under_the_files_name(logged: Path) -> None:
    logger = logging.getLogger("fetchwork.test")
    logger.info("one")
    logged.rename(logged.with_suffix(".old"))
    logger.info("two")
    log.reopen()
    logger.info("three")
    assert "two" in logged.with_suffix(".old").read_text()
    assert logged.read_text().endswith("INFO three\n")


def test_file_that_is_full_is_kept_once_and_begun_anew(logged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("fetchwork.test")
    monkeypatch.setattr(log, "MAX_BYTES", 200)
    for number in range(10):
        logger.info("line %d %s", number, "x" * 50)
    kept, now = logged.with_name("agent.log.1").read_text(), logged.read_text()
    assert kept and now.endswith("line 9 " + "x" * 50 + "\n")
    assert max(len(kept), len(now)) < 400
    assert not logged.with_name("agent.log.2").exists()


def test_log_that_is_no_file_is_never_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 0)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    handler = log.configure("info", pipe)
    try:
        logging.getLogger("fetchwork.test").info("one")
        assert os.read(end, 1000).endswith(b"INFO one\n")
        assert list(tmp_path.iterdir()) == [pipe]
    finally:
        logging.getLogger("fetchwork").removeHandler(handler)
        handler.close()
        os.close(end)
        logging.getLogger("fetchwork").propagate = True


def test_level_of_the_host_file_counts(logged: Path) -> None:
    log.configure("warning", logged)
    logging.getLogger("fetchwork.test").info("quiet")
    assert logged.read_text() == ""
