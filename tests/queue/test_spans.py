"""Traces: how a job gets its traceparent, and what a collector that speaks OTLP/HTTP receives of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import CollectorRegistry

from fetchwork import traceparent
from fetchwork.classad.bindings import JobAction
from fetchwork.errors import DatabaseUnavailable, SubmitError
from fetchwork.metrics import spans
from fetchwork.metrics.spans import Spans
from fetchwork.pool.ports import free_port
from fetchwork.queue.session import Session
from tests.queue.conftest import Queue, Run
from tests.support.waiting import PATIENCE_S, until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{SPAN}-00"
ENDED = {"JobState": "Exited", "JobPid": 77, "ExitBySignal": False}


class Collector:
    """A collector of traces; ``status`` is its answer to each request."""

    def __init__(self) -> None:
        self.status = 200
        self.requests = 0
        self.spans: list[Span] = []
        self.services: set[str] = set()
        collector = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        self.requests += 1
        if self.status != 200:
            return
        for resource in request.resource_spans:
            self.services |= {
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def of(self, job: str) -> dict[str, list[Span]]:
        """The spans about a job and those inside them, by name."""
        found: dict[str, list[Span]] = {}
        known = {one.span_id for one in self.spans if attributes(one).get("htcondor.JobId") == job}
        for one in self.spans:
            if one.span_id in known or one.parent_span_id in known:
                found.setdefault(one.name, []).append(one)
        return found


def attributes(span: Span) -> dict[str, object]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def sender(conninfo: str, registry: CollectorRegistry, collector: Collector) -> Iterator[Spans]:
    with Session(conninfo) as session:
        sender = Spans(registry, session, collector.url)
        sender.start()
        yield sender
        sender.stop()


def submit(queue: Queue, parent: str | None = PARENT, **more: object) -> str:
    ad = {"Cmd": "/bin/true", "Owner": "alice", "Iwd": "/tmp", **more}
    return f"{queue.submit(ad if parent is None else {**ad, 'TraceParent': parent}).cluster()}.0"


def run(queue: Queue, reason: str = "exit", **report: Any) -> int:
    """Run the next job to its end; its run's id."""
    started = queue.direct.started()
    queue.direct.finish(started, reason, **{**ENDED, "ExitCode": 0, **report})
    return started.run_id


# ways to submit


def stored(queue: Queue, cluster: int) -> object:
    (parent,) = {ad.get("TraceParent") for ad in queue.query(f"ClusterId == {cluster}")}
    return parent


def test_python_takes_the_traceparent_of_its_environment(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    assert stored(queue, queue.submit("executable = /bin/true\nqueue 2\n", owner="alice").cluster()) == PARENT
    other = PARENT.replace("7-01", "8-01")
    described = queue.submit(f'executable = /bin/true\n+traceparent = "{other}"\n', owner="alice")
    assert stored(queue, described.cluster()) == other
    monkeypatch.setenv("TRACEPARENT", f"cc-{PARENT[3:]}-later")
    assert stored(queue, int(submit(queue, None).split(".", maxsplit=1)[0])) == PARENT
    monkeypatch.setenv("TRACEPARENT", f"{PARENT}0")
    assert stored(queue, int(submit(queue, None).split(".", maxsplit=1)[0])) is None


def test_the_command_takes_the_traceparent_of_its_environment(
    queue: Queue, fetchwork: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    (tmp_path / "sub").write_text("executable = /bin/true\nqueue\n")
    made = fetchwork("submit", str(tmp_path / "sub"), "--owner", "alice", "--json")
    assert stored(queue, json.loads(made.out)["ClusterId"]) == PARENT


def test_sql_takes_the_traceparent_as_an_attribute(queue: Queue) -> None:
    statement = "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'alice', ad => %s)"
    job = queue.direct.value(statement, json.dumps({"traceparent": PARENT}))
    assert stored(queue, int(job.split(".")[0])) == PARENT


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "x",
        7,
        "/Expr(1)/",
        PARENT.upper(),
        f"{PARENT}-x",
        f"ff{PARENT[2:]}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_a_malformed_traceparent_is_refused_by_name(queue: Queue, wrong: object) -> None:
    with pytest.raises(SubmitError, match=r'attribute "TraceParent" is .*; allowed: a traceparent of W3C'):
        submit(queue, None, TraceParent=wrong)
    assert traceparent.read(wrong) is None
    job = submit(queue)
    with pytest.raises(SubmitError, match='attribute "TraceParent" is'):
        queue.edit(job, "TraceParent", json.dumps(wrong) if wrong != "/Expr(1)/" else "1 + 1")


# spans


def test_a_job_s_spans_are_its_submission_its_waits_and_its_runs(
    queue: Queue, sender: Spans, collector: Collector
) -> None:
    job = submit(queue, JobBatchName="night")
    first = run(queue, "evict")
    queue.act(JobAction.Hold, job)
    queue.act(JobAction.Release, job)
    second = run(queue, ExitCode=3)
    until(lambda: "run" in collector.of(job))
    found = collector.of(job)
    assert [len(found[name]) for name in ("job", "submit", "held", "run")] == [1, 1, 1, 2]
    (whole,) = found["job"]
    assert (whole.trace_id.hex(), whole.parent_span_id.hex()) == (TRACE, SPAN)
    assert attributes(whole) == {
        "htcondor.JobId": job, "htcondor.Owner": "alice", "htcondor.JobBatchName": "night",
    }  # fmt: skip
    assert (whole.status.code, whole.status.message) == (Status.STATUS_CODE_ERROR, "exit code 3")
    for inner in (*found["submit"], *found["held"], *found["run"], *found.get("wait", ())):
        assert inner.parent_span_id == whole.span_id and inner.trace_id == whole.trace_id
        assert whole.start_time_unix_nano <= inner.start_time_unix_nano <= inner.end_time_unix_nano
        assert inner.end_time_unix_nano <= whole.end_time_unix_nano
    by_run = {attributes(one)["htcondor.RunId"]: one for one in found["run"]}
    # the job's process had these spans in its environment
    assert {number: one.span_id.hex() for number, one in by_run.items()} == {
        number: traceparent.of_run(PARENT, job, number).split("-")[2] for number in (first, second)
    }
    assert by_run[first].status.message.startswith("evicted")
    parts = {one.name for one in collector.spans if one.parent_span_id == by_run[second].span_id}
    assert parts == {"offer", "execute"}
    assert collector.services == {"fetchwork"}
    assert len({one.span_id for one in collector.spans}) == len(collector.spans)


def test_only_jobs_with_a_sampled_traceparent_have_spans(
    queue: Queue, sender: Spans, collector: Collector, registry: CollectorRegistry
) -> None:
    for parent in (None, UNSAMPLED, PARENT):
        job = submit(queue, parent)
        run(queue)
    until(lambda: "job" in collector.of(job))
    assert len([one for one in collector.spans if one.name == "job"]) == 1
    until(lambda: registry.get_sample_value("SpansSent_total") == len(collector.spans))


def test_removed_jobs_and_those_that_stay_in_the_queue_have_spans(
    queue: Queue, sender: Spans, collector: Collector
) -> None:
    kept = submit(queue, LeaveJobInQueue=True)
    run(queue)
    removed = submit(queue)
    queue.act(JobAction.Remove, removed, "no more")
    until(lambda: collector.of(kept) and collector.of(removed))
    assert attributes(collector.of(removed)["job"][0])["htcondor.RemoveReason"] == "no more"
    assert collector.of(kept)["job"][0].status.code == Status.STATUS_CODE_UNSET


def test_a_restarted_exporter_sends_the_same_spans(queue: Queue, conninfo: str, collector: Collector) -> None:
    job = submit(queue)
    run(queue)
    sent = []
    for _ in range(2):
        collector.spans.clear()
        with Session(conninfo) as session:
            sender = Spans(CollectorRegistry(), session, f"{collector.url}/v1/traces")
            sender.start()
            until(lambda: "job" in collector.of(job))
            sender.stop()
        sent.append([one.SerializeToString() for one in collector.spans])
    assert sent[0] == sent[1] and len(sent[0]) >= 5


def test_spans_wait_for_a_collector_that_is_away(
    queue: Queue, sender: Spans, collector: Collector, registry: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(spans, "RETRY_S", 0.01)
    collector.status = 400
    jobs = [submit(queue) for _ in range(3)]
    for _ in jobs:
        run(queue)
    until(lambda: collector.requests > 2)
    collector.status = 200
    until(lambda: all(collector.of(job) for job in jobs))
    assert registry.get_sample_value("SpansDropped_total") == 0


def test_spans_are_dropped_and_counted_in_the_end(
    queue: Queue, sender: Spans, collector: Collector, registry: CollectorRegistry,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(spans, "PATIENCE_S", 0.0)
    collector.status = 400
    lost = submit(queue)
    run(queue)
    until(lambda: registry.get_sample_value("SpansDropped_total"))
    collector.status = 200
    job = submit(queue)
    run(queue)
    until(lambda: collector.of(job))
    assert not collector.of(lost)
    assert "spans_dropped spans=" in caplog.text


def test_a_database_that_goes_away_costs_no_span(
    queue: Queue, sender: Spans, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "RETRY_S", 0.01)
    failed: list[object] = []
    make = Spans._make_all

    def fails_once(self: Spans, *about: object) -> None:
        if not failed:
            failed.append(about)
            raise DatabaseUnavailable("gone")
        make(self, *about)  # type: ignore[arg-type]

    monkeypatch.setattr(Spans, "_make_all", fails_once)
    job = submit(queue)
    run(queue)
    until(lambda: "job" in collector.of(job))
    assert failed


def test_the_exporter_serves_metrics_while_no_collector_answers(
    conninfo: str, queue: Queue, fetchwork: Run
) -> None:
    submit(queue)
    run(queue)
    port = free_port()
    command = [
        sys.executable, "-m", "fetchwork", "exporter", "--dsn", conninfo,
        "--listen", f"127.0.0.1:{port}", "--otlp", f"http://127.0.0.1:{free_port()}",
    ]  # fmt: skip
    # seconds until the first try is over
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment) as exporter:
        assert exporter.stdout is not None and exporter.stderr is not None
        assert exporter.stdout.readline() == f"serving http://127.0.0.1:{port}/metrics\n"
        # it has tried
        assert exporter.stderr.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        assert "SpansSent_total 0.0" in text and "TotalJobAds" in text
        exporter.send_signal(signal.SIGTERM)
        assert exporter.wait(PATIENCE_S) == 0
    assert "--otlp" in fetchwork("exporter", "--otlp", "collector:4318").err
