"""The progress of a DAG, as ``fetchwork dag run`` and ``fetchwork watch`` show it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fetchwork.accesspoint.scheduler import jobargs
from fetchwork.cli import output
from fetchwork.codes import JobStatus
from fetchwork.dag import status
from fetchwork.errors import ClassAdError, NotFound

if TYPE_CHECKING:
    from rich.table import Table

    from fetchwork.ipc.frames import Json
    from fetchwork.queue.reading.dags import DagView
    from fetchwork.queue.remote import AnySession

#: the least seconds between two polls
LOOK_S = 1.0
WANTED = (
    "ClusterId", "ProcId", "Owner", "JobStatus", "ExitCode", "ExitSignal", "HoldReason", "Iwd", "Args",
    "Arguments", "Cmd", "QDate", "DAGNodeName", status.TOTAL, *status.ATTRIBUTES.values(),
)  # fmt: skip
_STATES = {
    JobStatus.IDLE: "idle",
    JobStatus.RUNNING: "running",
    JobStatus.REMOVED: "removed",
    JobStatus.COMPLETED: "ended",
    JobStatus.HELD: "held",
}


def look(session: AnySession, cluster: int) -> list[DagView]:
    """Return a DAG and its nested DAGs; raises NotFound."""
    found: list[DagView] = session.perform("dag", cluster=cluster, projection=list(WANTED))
    if not found:
        raise NotFound(f"there is no DAG {cluster}; 'fetchwork dag status' shows those in the queue")
    return found


def state(ad: Json) -> str:
    """The state of a DAG's job, in words."""
    if ad["JobStatus"] != JobStatus.COMPLETED:
        return _STATES.get(ad["JobStatus"], "running")
    if ad.get("ExitSignal") is not None:
        return f"ended by signal {ad['ExitSignal']}"
    return "successful" if ad.get("ExitCode") == 0 else f"failed, exit {ad.get('ExitCode')}"


def files(ad: Json) -> list[str]:
    """The DAG files that a condor_dagman's arguments name."""
    try:
        words = jobargs.arguments(ad)
    except ClassAdError:
        return []
    return [words[at + 1] for at, word in enumerate(words[:-1]) if word.lower() == "-dag"]


def exit_status(view: DagView) -> int:
    """The exit status of a command that waited for a DAG's end: the DAG's own."""
    code = view["ad"].get("ExitCode")
    return code if isinstance(code, int) else 1


def as_json(views: list[DagView]) -> Json:
    """Return a DAG for programs, with its nested DAGs."""
    first, *inner = (_plain(view) for view in views)
    return {**first, "dags": inner}


def _plain(view: DagView) -> Json:
    ad = view["ad"]
    counts = {
        attribute.removeprefix("DAG_Nodes").lower(): ad.get(attribute)
        for attribute in (status.TOTAL, *status.ATTRIBUTES.values())
    }
    return {
        "dag": ad["ClusterId"],
        "files": files(ad),
        "parent": view["parent"],
        "node": ad.get("DAGNodeName"),
        "state": state(ad),
        "ended": view["ended"],
        "exit_code": ad.get("ExitCode"),
        "hold_reason": ad.get("HoldReason"),
        "nodes": counts,
        "jobs": {"running": view["running"], "idle": view["idle"], "held": view["held"]},
    }


def progress(ad: Json) -> str:
    """Return the progress, in nodes, of a DAG that has reported it."""
    parts = [f"{ad.get('DAG_NodesDone', 0)} of {ad[status.TOTAL]} nodes done"]
    parts += [
        f"{ad[attribute]} {word}"
        for attribute, word in (
            ("DAG_NodesFailed", "failed"),
            ("DAG_NodesFutile", "futile"),
            ("DAG_NodesPrerun", "in PRE scripts"),
            ("DAG_NodesPostrun", "in POST scripts"),
        )
        if ad.get(attribute)
    ]
    return ", ".join(parts)


def sentence(view: DagView) -> str:
    """Return a DAG's progress, and the states of its nodes' jobs, as one line."""
    ad = view["ad"]
    parts = [progress(ad) if status.TOTAL in ad else "its nodes are not known yet"]
    counts = (("running", view["running"]), ("idle", view["idle"]), ("held", view["held"]))
    jobs = ", ".join(f"{number} {word}" for word, number in counts if number)
    if jobs:
        parts.append(f"jobs: {jobs}")
    if ad.get("HoldReason"):
        parts.append(f"held: {' '.join(str(ad['HoldReason']).split())}")
    return "; ".join(parts)


def follow(session: AnySession, cluster: int, interval: float, *, to_json: bool) -> DagView:
    """Show a DAG until it has ended: live on a terminal, else a line for each change; return the end."""
    states = _states(session, cluster, interval)
    plain = not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb"
    if to_json:
        return _print_json(states)
    return _lines(states) if plain else _live(states)


def _states(session: AnySession, cluster: int, interval: float) -> Iterator[list[DagView]]:
    """Yield the result of each poll; the last one has the end."""
    while True:
        views = look(session, cluster)
        yield views
        if views[0]["ended"]:
            return
        time.sleep(interval)


def _print_json(states: Iterator[list[DagView]]) -> DagView:
    before = None
    for views in states:
        shown = as_json(views)
        if shown != before:
            before = shown
            output.echo(output.to_json({"time": time.time(), **shown}))
            sys.stdout.flush()
    return views[0]


def _lines(states: Iterator[list[DagView]]) -> DagView:
    before: dict[int, str] = {}
    for views in states:
        now = {view["ad"]["ClusterId"]: _line(view) for view in views}
        for dag, line in now.items():
            if before.get(dag) != line:
                output.echo(f"{time.strftime('%H:%M:%S')} {line}")
        sys.stdout.flush()
        before = now
    return views[0]


def _line(view: DagView) -> str:
    ad = view["ad"]
    of = f" (node {ad.get('DAGNodeName')} of DAG {view['parent']})" if view["parent"] else ""
    return f"DAG {ad['ClusterId']}{of} {state(ad)}: {sentence(view)}"


def _live(states: Iterator[list[DagView]]) -> DagView:
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        for views in states:
            live.update(_table(views), refresh=True)
    return views[0]


def _table(views: list[DagView]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    first = views[0]["ad"]
    name = output.visible(", ".join(files(first)))
    table = Table(
        title=Text(f"DAG {first['ClusterId']} {name} at {time.strftime('%H:%M:%S')}"),
        title_justify="left",
        box=None,
    )
    table.add_column("DAG")
    table.add_column("", width=24)
    for heading in ("DONE", "FAILED", "FUTILE", "SCRIPTS", "TOTAL", "RUN", "IDLE", "HOLD"):
        table.add_column(heading, justify="right")
    table.add_column("STATE")
    depths: dict[int, int] = {}
    for view in views:
        ad = view["ad"]
        depth = depths[ad["ClusterId"]] = depths.get(view["parent"] or 0, -1) + 1
        counts = {name: ad.get(attribute, 0) for name, attribute in status.ATTRIBUTES.items()}
        total = ad.get(status.TOTAL, 0)
        whose = f"{'  ' * depth}{ad['ClusterId']} {ad.get('DAGNodeName', '') if depth else ''}"
        reason = f": {ad['HoldReason']}" if ad.get("HoldReason") else ""
        table.add_row(
            # a Text, because a name is no markup; rich lets escapes pass
            Text(output.visible(whose.rstrip())),
            ProgressBar(total=max(1, total), completed=counts["Done"], width=24),
            *(str(counts[name]) for name in ("Done", "Failed", "Futile")),
            str(counts["Pre"] + counts["Post"]),
            str(total),
            *(str(number) for number in (view["running"], view["idle"], view["held"])),
            Text(output.visible(state(ad) + reason)),
        )
    return table
