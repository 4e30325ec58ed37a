"""An access point that is killed and started again: no job is submitted twice, no line of a log is lost."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fetchwork.client.link import Link
from fetchwork.errors import AccessPointUnavailable, DatabaseUnavailable, FetchworkError
from fetchwork.ipc import frames
from fetchwork.pool.postgres import PostgresServer
from tests.accesspoint.event_logs import JOBS, entries
from tests.accesspoint.point import AccessPoint, as_account, request
from tests.faults.proxy import DatabaseProxy, Side
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until


def test_a_client_that_goes_away_does_not_stop_what_was_begun(point: AccessPoint) -> None:
    point.slots.connection.execute("BEGIN")
    # the access point's transaction waits for this one, at the key
    point.slots.connection.execute("INSERT INTO fetchwork.submission VALUES ('nobody', 'key', 1)")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(point.socket))
        asked = request("executable = /bin/true\nqueue 3\n", key="key")
        client.sendall(frames.encode({"op": "submit", **_as_nobody(asked)}))
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        other = point.slots.another()
        until(lambda: other.value(waiting) > 0, "the submission")
        point.slots.close_others()
        connections = point.status()["connections"]
    until(lambda: point.status()["connections"] < connections, "the end of the connection")
    point.slots.connection.execute("ROLLBACK")
    until(lambda: point.slots.value("SELECT count(*) FROM fetchwork.job") == 3, "its jobs")


def _as_nobody(asked: dict[str, Any]) -> Any:
    return {"as": "nobody", **asked}


def submit_until_answered(point: AccessPoint, text: str, key: str) -> Any:
    """Submit with one key until the access point answers."""
    with Link(str(point.socket), patience_s=100) as link:
        return link.ask("submit", again=True, **_as_nobody(request(text, key=key)))


def test_a_submission_to_an_access_point_that_stands_still_is_made_once(point: AccessPoint) -> None:
    assert point.process is not None
    text = "executable = /bin/true\nqueue 3\n"
    point.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        # the first client gives up, its request is there when the access point goes on
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(point.socket))
            client.sendall(frames.encode({"op": "submit", **_as_nobody(request(text, key="key"))}))
        submitted = pool.submit(submit_until_answered, point, text, "key")
        assert not submitted.done()
        point.process.send_signal(signal.SIGCONT)
        submitted.result()
    assert point.slots.value("SELECT count(*) FROM fetchwork.job") == 3


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.all) for seed in (2, 3))])
def test_killed_at_any_moment_it_submits_once_and_loses_no_line(
    point: AccessPoint, directory: Path, seed: int
) -> None:
    chance = random.Random(seed)
    log = directory / "a.log"
    log.touch()
    os.chown(log, 65534, 65534)
    keys = [f"key-{n}" for n in range(40)]
    answers: dict[str, Any] = {}

    def submits(part: list[str]) -> None:
        for key in part:
            answers[key] = submit_until_answered(point, JOBS.format(log, 2), key)
            cluster = answers[key]["cluster"]
            # the number of jobs that the answer promises
            heads = Counter(line[:17] for line in entries_of_whole(log))
            assert all(heads[f"000 ({cluster:03}.{n:03}.000)"] == 1 for n in range(2)), (key, heads)

    failures: list[BaseException] = []

    def guarded(part: list[str]) -> None:
        try:
            submits(part)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(keys[n::3],)) for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        time.sleep(chance.uniform(0.05, 0.6))
        point.kill()
        point.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert point.slots.value("SELECT count(*) FROM fetchwork.cluster") == len(keys)
    assert len({answer["cluster"] for answer in answers.values()}) == len(keys)
    for cluster in sorted({answer["cluster"] for answer in answers.values()}):
        with Link(str(point.socket)) as link:
            link.ask("change", action="Remove", spec=[str(cluster)], **_as_nobody({}))
        if chance.random() < 0.1:
            point.kill()
            point.start()
    until(lambda: len(entries(log)) >= 4 * len(keys))
    heads = Counter(line[:3] for line in entries(log))
    assert heads == {"000": 2 * len(keys), "009": 2 * len(keys)}
    assert all(number == 1 for number in Counter(entries(log)).values())


def entries_of_whole(log: Path) -> list[str]:
    """The complete ``entries`` of a log that is being written."""
    whole = log.read_text().rpartition("...\n")[0]
    return [part.strip() for part in whole.split("...\n")]


def test_a_request_with_a_key_that_was_used_is_answered_with_the_first_cluster(
    point: AccessPoint, directory: Path
) -> None:
    log = directory / "a.log"
    first = submit_until_answered(point, JOBS.format(log, 2), "k")
    again = submit_until_answered(point, "executable = /bin/false\nqueue 7\n", "k")
    assert (again["cluster"], again["count"]) == (first["cluster"], 2)
    assert point.slots.value("SELECT count(*) FROM fetchwork.job") == 2
    assert len(entries(log)) == 2
    # another person's equal key is a different key
    theirs = as_account(
        "daemon",
        lambda: Link(str(point.socket)).ask("submit", **request("executable = /bin/true\nqueue\n", key="k")),
    )
    assert theirs["cluster"] != first["cluster"]


def test_requests_with_one_key_at_once_make_one_cluster(
    point: AccessPoint, directory: Path, connect: Callable[..., psycopg.Connection]
) -> None:
    with connect(autocommit=False) as old:
        # holds back the stream of events: every entry in the logs was written by a request
        old.execute("SELECT fetchwork.take_turn('events')")
        for key in "abcdef":
            log = directory / f"{key}.log"
            ask = partial(submit_until_answered, point, JOBS.format(log, 3), key)
            with ThreadPoolExecutor(6) as requests:
                answers = [asked.result() for asked in [requests.submit(ask) for _ in range(6)]]
            assert len({answer["cluster"] for answer in answers}) == 1
            assert len(entries(log)) == 3
    assert point.slots.value("SELECT count(*) FROM fetchwork.job") == 18


def test_a_child_that_is_killed_within_a_submission_leaves_nothing(
    point: AccessPoint, directory: Path, slots: DirectQueue
) -> None:
    fifo = directory / "never-written"
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    text = f"include : {fifo}\nexecutable = /bin/true\nqueue\n"
    with ThreadPoolExecutor(1) as requests:
        asked = requests.submit(submit_until_answered, point, text, "k")

        def killed() -> bool:
            point.kill_children("nobody")
            return asked.done()

        until(killed, "the end of the submission")
        with pytest.raises(FetchworkError, match="the process that does this for 'nobody' ended"):
            asked.result()
    assert slots.value("SELECT count(*) FROM fetchwork.job") == 0
    assert submit_until_answered(point, JOBS.format(directory / "a.log", 2), "k")["count"] == 2


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_submission_whose_connection_to_the_database_is_lost_is_made_once(
    directory: Path, point_conninfo: str, postgres: PostgresServer, slots: DirectQueue, side: Side
) -> None:
    async def nothing() -> None:
        """Break the connection, and do nothing else."""

    async with DatabaseProxy(postgres.port) as proxy:
        point = AccessPoint(directory, proxy.conninfo(point_conninfo))
        await asyncio.to_thread(point.start)
        try:
            trap = proxy.trap("submit_noted", side, nothing)
            ask = partial(submit_until_answered, point, JOBS.format(directory / "a.log", 2), "k")
            with contextlib.suppress(DatabaseUnavailable):
                await asyncio.to_thread(ask)
            await asyncio.wait_for(trap.sprung.wait(), PATIENCE_S)
            # a client that was told of a failure submits again, under the same key
            answer = await asyncio.to_thread(ask)
        finally:
            await asyncio.to_thread(point.stop)
    assert answer["count"] == 2
    assert slots.rows("SELECT DISTINCT cluster_id FROM fetchwork.job") == [(answer["cluster"],)]
    assert len(entries(directory / "a.log")) == 2


def test_what_happened_while_it_was_away_is_written_when_it_is_back(
    point: AccessPoint, directory: Path
) -> None:
    log = directory / "a.log"
    submit_until_answered(point, JOBS.format(log, 1), "k")
    point.kill()
    point.slots.finish(point.slots.started())
    assert len(entries(log)) == 1
    point.start()
    until(lambda: len(entries(log)) == 3)
    assert point.stop() == 0
    point.start()
    submit_until_answered(point, JOBS.format(log, 1), "l")
    assert [line[:3] for line in entries(log)] == ["000", "001", "005", "000"]


def test_an_entry_that_a_kill_cut_is_written_whole(point: AccessPoint, directory: Path) -> None:
    log = directory / "a.log"
    submit_until_answered(point, JOBS.format(log, 1), "k")
    point.kill()
    point.slots.finish(point.slots.started())
    with log.open("a") as cut:
        cut.write("001 (001.000.000) 2026-11-2")
    point.start()
    until(lambda: "005 (" in log.read_text())
    until(lambda: len(entries(log)) == 3)


def test_who_asks_while_nothing_listens_hears_so_in_one_line(directory: Path) -> None:
    with (
        Link(str(directory / "none.sock"), patience_s=0) as link,
        pytest.raises(
            AccessPointUnavailable, match=r"no access point answers at '.*none.sock': No such file"
        ),
    ):
        link.ask("totals")
