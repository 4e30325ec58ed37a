"""Metrics of a database: the exported values agree with the views."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from fetchwork import __version__
from fetchwork.classad.bindings import JobAction
from fetchwork.config.hostname import listen_address
from fetchwork.db.schema import Readiness
from fetchwork.errors import AgentUnavailable
from fetchwork.metrics.events import EventCounters
from fetchwork.metrics.pool import MAX_AGE_S, MAX_LABELS, OTHER, PoolCollector
from fetchwork.metrics.serving import Server, text_of
from fetchwork.metrics.spans import Spans
from fetchwork.pool.ports import free_port
from fetchwork.queue.session import Session
from tests.metrics.names import documented
from tests.queue.conftest import Queue, Run
from tests.support.waiting import PATIENCE_S, until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """The values of a text, by name and labels."""
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if not one.name.endswith("_created")
    }


def value(read: Samples, name: str, **labels: str) -> float | None:
    return read.get((name, frozenset(labels.items())))


OK = f"ok: fetchwork {__version__}\n"


def asked(port: int, path: str) -> tuple[int, str]:
    """The status and the text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(session: Session, clock: Clock) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(PoolCollector(session, clock=clock))
    return registry


def submit(queue: Queue, count: int, owner: str = "alice") -> int:
    return queue.submit("executable = /bin/true\n", count=count, owner=owner).cluster()


def test_jobs_are_counted_by_state_submitter_and_queue(registry: CollectorRegistry, queue: Queue) -> None:
    cluster = submit(queue, 5)
    submit(queue, 2, "bob")
    queue.act(JobAction.Hold, f"{cluster}.0")
    queue.direct.started()
    read = samples(text_of(registry))
    states = ("TotalJobAds", "TotalIdleJobs", "TotalRunningJobs", "TotalHeldJobs")
    assert [value(read, name, submitter="alice", queue="default") for name in states] == [5, 3, 1, 1]
    assert [value(read, name, submitter="bob", queue="default") for name in states] == [2, 2, 0, 0]
    assert value(read, "NumUsers") == 2
    assert value(read, "DatabaseUp") == 1
    assert (value(read, "HostsAlive"), value(read, "HostsCopied")) == (1, 0)


def test_hosts_with_a_copied_identity_are_counted(registry: CollectorRegistry, queue: Queue) -> None:
    submit(queue, 1)
    queue.direct.started()
    queue.direct.copy_identity()
    assert value(samples(text_of(registry)), "HostsCopied") == 1


def test_policies_rest_while_no_process_evaluates_them(registry: CollectorRegistry, queue: Queue) -> None:
    taken = (
        "UPDATE fetchwork.leader_task SET taken_at = taken_at - interval '3 minutes' WHERE name = 'policy'"
    )
    submit(queue, 1)
    assert queue.direct.scalar("policies_rest") is False
    queue.direct.submit(PeriodicRemove="/Expr(JobStatus == 5)/")
    assert value(samples(text_of(registry)), "PoliciesRest") == 1
    assert queue.direct.scalar("take_leader_task", name="policy", every_s=60) is True
    assert queue.direct.scalar("policies_rest") is False
    queue.direct.connection.execute(taken)
    assert queue.direct.scalar("policies_rest") is True


def test_the_oldest_idle_job_has_an_age(registry: CollectorRegistry, queue: Queue) -> None:
    submit(queue, 1)
    queue.direct.connection.execute("UPDATE fetchwork.job SET q_date = q_date - interval '1 hour'")
    submit(queue, 1)
    age = value(samples(text_of(registry)), "OldestIdleJob_seconds", queue="default")
    assert age is not None
    # QDate is rounded to whole seconds
    assert 3599 <= age < 3600 + PATIENCE_S


def test_many_submitters_are_a_bounded_number_of_values(registry: CollectorRegistry, queue: Queue) -> None:
    for number in range(MAX_LABELS + 5):
        submit(queue, 2 if number < MAX_LABELS else 1, f"user{number}")
    read = samples(text_of(registry))
    named = {dict(labels)["submitter"]: n for (name, labels), n in read.items() if name == "TotalIdleJobs"}
    assert len(named) == MAX_LABELS + 1
    assert named[OTHER] == 5
    assert value(read, "NumUsers") == MAX_LABELS + 5


def test_many_who_ask_at_once_are_one_reading(
    registry: CollectorRegistry, queue: Queue, clock: Clock
) -> None:
    submit(queue, 1)
    text_of(registry)
    submit(queue, 1)
    labels = {"submitter": "alice", "queue": "default"}
    assert value(samples(text_of(registry)), "TotalIdleJobs", **labels) == 1
    clock.now += MAX_AGE_S + 1
    assert value(samples(text_of(registry)), "TotalIdleJobs", **labels) == 2


def test_a_database_that_does_not_answer_is_said_and_nothing_else() -> None:
    registry = CollectorRegistry()
    with Session("host=127.0.0.1 port=1 connect_timeout=2") as session:
        registry.register(PoolCollector(session))
        assert samples(text_of(registry)) == {("DatabaseUp", frozenset()): 0.0}


def test_what_happens_is_counted_from_the_events(session: Session, conninfo: str, queue: Queue) -> None:
    registry = CollectorRegistry()
    submit(queue, 1, "before")
    queue.direct.finish(queue.direct.started())
    counters = EventCounters(registry, session)
    counters.start()
    try:
        # the reader begins at the newest event of that moment
        until(lambda: submit(queue, 1, "early") and counted(registry, "JobsSubmitted_total") > 0)
        base = {name: counted(registry, name) for name in ("JobsSubmitted_total", "JobsHeld_total")}
        cluster = submit(queue, 5)
        queue.act(JobAction.Hold, f"{cluster}.0")
        queue.act(JobAction.Release, f"{cluster}.0")
        queue.act(JobAction.Remove, f"{cluster}.1")
        queue.direct.connection.execute("SELECT fetchwork.set_queue('default', '{\"paused\": false}')")
        queue.act(JobAction.Remove, 'Owner != "alice"')
        queue.direct.finish(
            queue.direct.started(), JobState="Exited", JobPid=77, ExitBySignal=False, ExitCode=0
        )
        queue.direct.finish(
            queue.direct.started(), JobState="Exited", JobPid=77, ExitBySignal=False, ExitCode=3
        )
        queue.direct.finish(
            queue.direct.started(), JobState="Exited", JobPid=77, ExitBySignal=True, ExitSignal=9
        )
        until(lambda: counted(registry, "JobsExited_total", ending="signal") == 1)
        assert counted(registry, "JobsSubmitted_total") >= base["JobsSubmitted_total"] + 5
        assert counted(registry, "JobsHeld_total", code="1") == 1
        assert counted(registry, "JobsReleased_total") == 1
        assert counted(registry, "JobsExited_total", ending="success") == 1
        assert counted(registry, "JobsExited_total", ending="failure") == 1
        assert counted(registry, "JobsStarted_total") == 3
        run = queue.direct.started()
        queue.direct.finish(run, "evict", JobState="Exited", JobPid=77)
        until(lambda: counted(registry, "JobsEvicted_total", outcome="evicted") == 1)
    finally:
        counters.stop()


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


def test_the_document_lists_every_metric_and_no_other(
    session: Session, registry: CollectorRegistry, queue: Queue
) -> None:
    submit(queue, 2)
    queue.direct.started()
    queue.direct.call("set_limit", name="licence", maximum=2)
    queue.direct.connection.execute(
        "SELECT fetchwork.report_slots(%s, %s)",
        [queue.direct.host(), '[{"name": "slot1@h1", "fetched_at": 1e9, "cpus": 1, "state": "Unclaimed"}]'],
    )
    EventCounters(registry, session)
    Spans(registry, session, "http://127.0.0.1:1")
    families = text_string_to_metric_families(text_of(registry))
    shown = {f"{one.name}_total" if one.type == "counter" else one.name for one in families}
    # when a counter began, which the client adds by itself
    shown = {name for name in shown if not name.endswith("_created")}
    assert shown == documented("database")


@pytest.mark.slow
def test_prometheus_accepts_what_is_printed(fetchwork: Run, queue: Queue, promtool: Path) -> None:
    submit(queue, 1)
    printed = fetchwork("exporter", "--once")
    assert printed.status == 0, printed.err
    done = subprocess.run([promtool, "check", "metrics"], input=printed.out, capture_output=True, text=True)
    # promtool would not choose HTCondor's names in camel case
    problems = [
        line for line in done.stderr.splitlines() if "snake_case" not in line and "camelCase" not in line
    ]
    assert problems == []


def test_an_exporter_serves_until_it_is_told_to_end(conninfo: str, queue: Queue) -> None:
    submit(queue, 3)
    port = free_port()
    command = [
        sys.executable, "-m", "fetchwork", "exporter", "--dsn", conninfo,
        "--listen", f"127.0.0.1:{port}",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as exporter:
        assert exporter.stdout is not None
        assert exporter.stdout.readline() == f"serving http://127.0.0.1:{port}/metrics\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            read = samples(answer.read().decode())
        assert value(read, "TotalIdleJobs", submitter="alice", queue="default") == 3
        assert [asked(port, path) for path in ("/healthz", "/readyz")] == [(200, OK), (200, OK)]
        exporter.send_signal(signal.SIGTERM)
        assert exporter.wait(PATIENCE_S) == 0


def test_a_server_that_is_not_ready_says_why_and_is_alive() -> None:
    port = free_port()
    server = Server(CollectorRegistry(), "127.0.0.1", port, lambda: "the database is away")
    assert asked(port, "/readyz") == (503, "the database is away\n")
    assert asked(port, "/healthz") == (200, OK)
    server.close()


def test_a_database_is_ready_if_it_answers_and_has_the_schema(
    conninfo: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Readiness, "FRESH_S", 0)
    ready = Readiness(conninfo)
    assert ready.problem() is None
    connection.execute("DELETE FROM fetchwork.migration")
    assert ready.problem() == "the database has no schema 'fetchwork'"
    assert "connection" in str(Readiness("host=127.0.0.1 port=1 dbname=none").problem())


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(AgentUnavailable, match=f"cannot listen at '127.0.0.1:{port}': "):
            Server(CollectorRegistry(), "127.0.0.1", port)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9118", ("127.0.0.1", 9118)),
        ("[::1]:80", ("::1", 80)),
        (":9118", ("::" if socket.has_dualstack_ipv6() else "0.0.0.0", 9118)),
        ("host.example.org:65535", ("host.example.org", 65535)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "9118", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "h:x", "h:²"])
def test_what_is_no_address_is_refused(text: str, fetchwork: Run) -> None:
    with pytest.raises(ValueError, match="is not an address; allowed: ADDRESS:PORT"):
        listen_address(text)
    said = fetchwork("exporter", "--listen", text)
    assert said.status == 2
    assert "--listen" in said.err


def test_a_wrong_database_is_told_at_once(fetchwork: Run) -> None:
    began = time.monotonic()
    said = fetchwork("exporter", "--dsn", "host=127.0.0.1 port=1 connect_timeout=2")
    assert said.status == 1
    assert time.monotonic() - began < PATIENCE_S
