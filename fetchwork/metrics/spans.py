"""Spans of jobs that have ended, for a collector of traces that speaks OTLP over HTTP.

Only jobs with a traceparent whose sampled flag is set have spans. They are made of history when the job has
ended, with ids that are the same each time (``fetchwork.traceparent``). A restarted exporter sends the spans
of the last minutes again, under the same ids.

While the collector does not answer, later events wait in the database. After ``PATIENCE_S`` spans are dropped
and counted, so that a collector that comes back gets recent ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from prometheus_client import CollectorRegistry, Counter

from fetchwork import __version__, traceparent
from fetchwork.codes import EventType, JobStatus
from fetchwork.errors import DatabaseUnavailable, FetchworkError
from fetchwork.log import event as log_event
from fetchwork.metrics.events import RETRY_S, Follower
from fetchwork.queue.events.jobevents import JobEvent
from fetchwork.queue.reading.phases import ENDS, MOST_RUNS, RUNS, Phase, outcome, phases
from fetchwork.queue.reading.views import Json, Row
from fetchwork.queue.session import Session

log = logging.getLogger(__name__)

#: seconds for which a collector that does not answer is waited for
PATIENCE_S = 600.0
#: seconds before its start from which an exporter sends the jobs that ended
AGAIN_S = 300.0
#: jobs that are looked up at once, spans of one request, and events of one job that are read
_JOBS, _SPANS, _EVENTS = 500, 500, 1000
#: state of a job -> name of its span
_NAMES = {"idle": "wait", "offered": "offer", "running": "execute"}

_RECENT = """
SELECT h.clusterid, h.procid
FROM fetchwork.history AS h
WHERE h.completed_at > now() - make_interval(secs => %s) AND h.ad ? 'TraceParent'
"""

# a job that leave_in_queue keeps is not in history. The LIMIT has the planner look up each job by itself
_TRACED = """
SELECT t.*, extract(epoch FROM t.q_at)::float8 AS submitted, extract(epoch FROM t.ended_at)::float8 AS ended
FROM unnest(%s::integer [], %s::integer []) AS e (cluster, proc)
CROSS JOIN LATERAL (
    SELECT
        h.clusterid, h.procid, h.jobid, h.owner, h.jobbatchname, h.jobstatus, h.removereason, h.q_at,
        h.completed_at AS ended_at, h.ad ->> 'TraceParent' AS parent
    FROM fetchwork.history AS h
    WHERE h.clusterid = e.cluster AND h.procid = e.proc
    UNION ALL
    SELECT
        j.clusterid, j.procid, j.jobid, j.owner, j.jobbatchname, j.jobstatus, j.removereason, j.q_at,
        j.status_at, j.ad ->> 'TraceParent'
    FROM fetchwork.jobs AS j
    WHERE j.clusterid = e.cluster AND j.procid = e.proc AND j.jobstatus IN (3, 4)
    LIMIT 1
) AS t
WHERE t.parent IS NOT NULL
"""

_CHANGES = """
SELECT e.eventtypenumber, extract(epoch FROM e.event_at)::float8 AS at, e.info
FROM fetchwork.events AS e
WHERE e.clusterid = %s AND e.procid = %s AND e.eventtypenumber IN (5, 9, 10, 11, 12, 13)
ORDER BY e.eventid DESC
LIMIT %s
"""


class Spans(Follower):
    """The thread that sends the spans of ended jobs to the collector at ``url``, and its counters."""

    def __init__(self, registry: CollectorRegistry, session: Session, url: str) -> None:
        super().__init__(session)
        self.sent = Counter("SpansSent", "Spans that the collector has taken", registry=registry)
        self.dropped = Counter("SpansDropped", "Spans that the collector did not take", registry=registry)
        self._failing_since: float | None = None
        self._ids = _Ids()
        self._made = _Made()
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": "fetchwork", "service.version": __version__}),
            shutdown_on_exit=False,
            id_generator=self._ids,
        )
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer("fetchwork", __version__)
        self._exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/').removesuffix('/v1/traces')}/v1/traces")

    def stop(self) -> None:
        """End the thread, and wait for its end."""
        self._stopping.set()
        # ends a wait for the collector, too
        self._exporter.shutdown()  # type: ignore[no-untyped-call]
        super().stop()

    def begin(self) -> None:
        """Send the spans of jobs that may have ended while no exporter ran."""
        rows = self._session.database.query(_RECENT, [AGAIN_S])
        self._send([(row["clusterid"], row["procid"]) for row in rows])

    def take(self, events: Sequence[JobEvent]) -> None:
        """Send the spans of the jobs that have ended by these events."""
        ends = (EventType.JOB_TERMINATED, EventType.JOB_ABORTED)
        self._send([event.job for event in events if event.type_number in ends])

    def _send(self, jobs: Sequence[tuple[int, int]]) -> None:
        for at in range(0, len(jobs), _JOBS):
            clusters, procs = zip(*jobs[at : at + _JOBS], strict=True)
            while not self._stopping.is_set():
                try:
                    for row in self._session.database.query(_TRACED, [list(clusters), list(procs)]):
                        self._make(row)
                    break
                except DatabaseUnavailable as error:
                    # spans that are sent again have the same ids
                    log_event(log, logging.WARNING, "jobs_not_read", problem=error)
                    self._stopping.wait(RETRY_S)
            self._export(0)

    def _export(self, most: int) -> None:
        """Send the spans that were made, if they are more than ``most``."""
        while len(self._made.spans) > most and not self._stopping.is_set():
            spans = self._made.spans[:_SPANS]
            if self._exporter.export(spans) is SpanExportResult.SUCCESS:
                self._failing_since = None
                self.sent.inc(len(spans))
            elif self._waits():
                self._stopping.wait(RETRY_S)
                continue
            else:
                self.dropped.inc(len(spans))
                log_event(log, logging.WARNING, "spans_dropped", spans=len(spans))
            del self._made.spans[:_SPANS]

    def _waits(self) -> bool:
        """Whether to try once more to send spans; the exporter has logged the problem."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        return now - self._failing_since < PATIENCE_S

    def _make(self, job: Row) -> None:
        """Make the spans of a job, if they are wanted."""
        parent = traceparent.read(job["parent"])
        if parent is None or not traceparent.is_sampled(parent):
            return
        try:
            self._make_all(job, parent)
        except DatabaseUnavailable:
            raise
        except FetchworkError as error:
            log_event(log, logging.WARNING, "job_without_spans", job=job["jobid"], problem=error)
        self._export(_SPANS)

    def _make_all(self, job: Row, parent: str) -> None:
        which = [job["clusterid"], job["procid"]]
        runs = self._session.database.query(RUNS, [*which, MOST_RUNS])[::-1]
        changes = self._session.database.query(_CHANGES, [*which, _EVENTS])[::-1]
        ad = {"QDate": job["submitted"], "JobStatus": job["jobstatus"], "EnteredCurrentStatus": job["ended"]}
        line = phases(ad, runs, [_event(row) for row in changes])
        name, status = job["jobid"], job["jobstatus"]
        last = runs[-1] if runs and status == JobStatus.COMPLETED else None
        about = {"JobId": name, "Owner": job["owner"], "JobBatchName": job["jobbatchname"]}
        outer = self._span(
            "job",
            _remote(parent),
            traceparent.span_id(parent, name),
            (job["submitted"], job["ended"]),
            {**about, "RemoveReason": job["removereason"]},
            problem=_problem(last),
        )
        at = (job["submitted"],) * 2
        self._span("submit", outer, traceparent.span_id(parent, name, "submit"), at, about)
        inside: dict[int, Context] = {}
        for run in runs:
            run_id = run["runid"]
            inside[run_id] = self._span(
                "run",
                outer,
                traceparent.span_id(parent, name, run_id),
                (run["claimed"], run["ended"] or job["ended"]),
                {"RunId": run_id, "RemoteHost": run["remotehost"], "ExitCode": run["exitcode"], **about},
                problem=_problem(run),
            )
        for number, phase in enumerate(line):
            if phase.state in ENDS:
                continue
            run_id = phase.run["runid"] if phase.run else 0
            id_ = traceparent.span_id(parent, name, run_id, number)
            how = {"Reason": phase.how}
            self._span(_name(phase), inside.get(run_id, outer), id_, (phase.begin, phase.end), how)

    def _span(
        self,
        name: str,
        parent: Context,
        id_: str,
        times: tuple[float, float],
        attributes: Json,
        problem: str = "",
    ) -> Context:
        """Make a span of known times (epoch seconds), and return the context of those inside it."""
        self._ids.next = int(id_, 16)
        begin, end = (int(seconds * 1e9) for seconds in times)
        known = {f"htcondor.{key}": value for key, value in attributes.items() if value not in (None, "")}
        span = self._tracer.start_span(name, parent, attributes=known, start_time=begin)
        if problem:
            span.set_status(trace.StatusCode.ERROR, problem)
        span.end(max(begin, end))
        return trace.set_span_in_context(span)


class _Ids(RandomIdGenerator):
    """Gives the next span the id that was chosen for it."""

    next = 0

    def generate_span_id(self) -> int:
        return self.next


class _Made(SpanProcessor):
    """Keeps the spans that are ready to be sent."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def _remote(parent: str) -> Context:
    _, trace_id, span_id, flags = parent.split("-")
    context = trace.SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=trace.TraceFlags(int(flags, 16))
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(context))


def _event(row: Row) -> Json:
    """An event in the form that ``phases`` reads."""
    return {**(row["info"] or {}), "EventTypeNumber": row["eventtypenumber"], "at": row["at"]}


def _name(phase: Phase) -> str:
    if phase.state == "transferring" and phase.run is not None:
        return "transfer input" if phase.begin == phase.run["started"] else "transfer output"
    return _NAMES.get(phase.state, phase.state)


def _problem(run: Row | None) -> str:
    """The end of a run if it failed, for people."""
    if run is None or (run["outcome"] == "completed" and not run["exitcode"] and not run["exitsignal"]):
        return ""
    return outcome(run)
