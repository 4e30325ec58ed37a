"""``fetchwork exporter``: metrics of a database for Prometheus."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fetchwork.metrics.events import Follower
    from fetchwork.queue.session import Session

DEFAULT_ADDRESS = "127.0.0.1:9118"


@click.command()
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="ADDRESS:PORT",
    help="The address for Prometheus; ':9118' listens at all addresses.",
)
@click.option(
    "--otlp",
    metavar="URL",
    help="Send spans of ended jobs that have a traceparent to this collector, by OTLP over HTTP.",
)
@click.option("--once", is_flag=True, help="Print the metrics and end.")
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.pass_context
def cli(context: click.Context, listen: str, otlp: str | None, once: bool, dsn: str | None) -> None:
    """Serve metrics of a database to Prometheus: the state of the queue and its pool, and counters of events.

    One exporter for each database is enough; its role must read all jobs (fetchwork_reader). An agent serves
    its own metrics if agent.metrics of its host file says so. Counters count from the start of the
    exporter. /healthz answers as long as the exporter does, /readyz if the database answers too.

    --otlp needs fetchwork[otlp]. OpenTelemetry's variables (OTEL_EXPORTER_OTLP_HEADERS and others) apply.

    \b
    Example:
      fetchwork exporter --dsn service=pool
      fetchwork exporter --listen :9118 --otlp http://collector.example.org:4318
      fetchwork exporter --once | promtool check metrics
    """
    from prometheus_client import CollectorRegistry

    from fetchwork.config.hostname import listen_address
    from fetchwork.db.schema import Readiness
    from fetchwork.metrics import serving
    from fetchwork.metrics.events import EventCounters
    from fetchwork.metrics.pool import PoolCollector
    from fetchwork.queue.reading.summaries import totals
    from fetchwork.queue.session import Session

    try:
        address, port = listen_address(listen)
    except ValueError as error:
        raise click.UsageError(f"--listen: {error}") from None
    conninfo = options.conninfo_of(context, dsn)
    registry = CollectorRegistry()
    # one connection each: a reader of events waits on its own
    snapshots, events, ended = Session(conninfo), Session(conninfo), Session(conninfo)
    for session in (snapshots, events, ended):
        context.call_on_close(session.close)
    # report a wrong connection string now, not at the first scrape
    snapshots.run(totals())
    registry.register(PoolCollector(snapshots))
    followers: list[Follower] = [EventCounters(registry, events)]
    if otlp is not None:
        followers.append(_spans(registry, ended, otlp))
    if once:
        output.echo(serving.text_of(registry), nl=False)
        return
    server = serving.Server(registry, address, port, Readiness(conninfo).problem)
    for follower in followers:
        follower.start()
    output.echo(f"serving http://{listen if listen[0] != ':' else f'*:{port}'}/metrics")
    _wait_for_signal()
    server.close()
    for follower in followers:
        follower.stop()


def _spans(registry: CollectorRegistry, session: Session, url: str) -> Follower:
    """Return the sender of spans; raises ClickException without its packages."""
    try:
        from fetchwork.metrics.spans import Spans
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"package '{error.name}' is not installed: pip install 'fetchwork[otlp]'"
        ) from None
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--otlp: '{url}' is no URL; allowed: such as http://127.0.0.1:4318")
    return Spans(registry, session, url)


def _wait_for_signal() -> None:
    """Return at SIGINT or SIGTERM."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return
