"""A primary under Patroni is killed, and later changes places, while hosts and people work."""

import asyncio
import random
import tempfile
from pathlib import Path

import psycopg
import pytest

from fetchwork.db import schema
from tests.evidence import patroni, workload
from tests.evidence.checker import anomalies
from tests.evidence.history import Outcome, Recorder, read
from tests.evidence.judging import SETTINGS
from tests.faults.proxy import DatabaseProxy

pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(patroni.missing() is not None, reason=str(patroni.missing())),
]


class _NoProxy(DatabaseProxy):
    """The clients find the primary themselves."""

    def __init__(self) -> None:
        super().__init__(0)

    def conninfo(self, conninfo: str) -> str:
        return conninfo


def _fail_over(cluster: patroni.Cluster, recorder: Recorder) -> None:
    """Kill the primary's node; the other one leads, and the killed one comes back to follow it."""
    leader = cluster.leader
    assert leader is not None
    other = next(node for node in cluster.nodes if node is not leader)
    number = recorder.invoke("faults", "crash")
    leader.kill()
    cluster.until_led_by(other)
    recorder.answer(number, Outcome.OK)
    leader.start()
    cluster.until_whole()


async def test_no_acknowledged_change_is_lost_and_no_job_runs_twice(tmp_path: Path) -> None:
    path = tmp_path / "clients.jsonl"
    with (
        tempfile.TemporaryDirectory(prefix="patroni-") as directory,
        patroni.Cluster(Path(directory)) as cluster,
    ):
        with psycopg.connect(cluster.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE evidence")
        conninfo = cluster.conninfo("evidence")
        schema.init(conninfo)
        with psycopg.connect(conninfo, autocommit=True) as connection:
            for name, value in SETTINGS.items():
                connection.execute("SELECT fetchwork.set_setting(%s, %s::numeric)", [name, value])

        async def faults(recorder: Recorder, _: list[workload.Host], chosen: random.Random) -> None:
            await asyncio.sleep(chosen.uniform(2.0, 4.0))
            await asyncio.to_thread(_fail_over, cluster, recorder)
            await asyncio.sleep(chosen.uniform(6.0, 8.0))
            await asyncio.to_thread(cluster.switch_over)

        size = workload.Size(submissions=20, seconds=40.0)
        await workload.play_with(faults, _NoProxy, conninfo, path, 1, size)
    history = read(path)
    assert anomalies(history) == []
    # work went on after both
    (failed_over,) = [call for call in history.calls if call.function == "crash"]
    assert any(execution.began < failed_over.invoked for execution in history.executions)
    assert any(execution.began > failed_over.returned for execution in history.executions)
