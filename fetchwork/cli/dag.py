"""``fetchwork dag``: DAGs, run by HTCondor's condor_dagman over the queue."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from fetchwork.cli import options, output
from fetchwork.client.link import socket_path
from fetchwork.client.wire import Json
from fetchwork.codes import JobStatus
from fetchwork.dag import drawing, environment, graph, programs, status
from fetchwork.errors import FetchworkError, NotFound
from fetchwork.queue.remote import AnySession

#: the least time between two looks of a view that follows
LOOK_S = 1.0
_COUNTS = ("Done", "Pre", "Queued", "Post", "Ready", "Un-Ready", "Failed", "Futile")
_WANTED = (
    *("ClusterId", "ProcId", "Owner", "JobStatus", "ExitCode", "ExitSignal", "HoldReason", "Iwd", "Args"),
    *("Arguments", "Cmd", "QDate", status.TOTAL, *status.ATTRIBUTES.values()),
)
_LETTERS = {
    JobStatus.IDLE: "idle",
    JobStatus.RUNNING: "running",
    JobStatus.REMOVED: "removed",
    JobStatus.COMPLETED: "ended",
    JobStatus.HELD: "held",
}


@click.group()
def cli() -> None:
    """DAGs, run by HTCondor's condor_dagman over the queue.

    A DAG is a job of the access point's host, which takes no slot; its nodes are jobs like all others.

    \b
    Example:
      fetchwork dag run my.dag
      fetchwork dag status 42
    """


def _submitting(function: Callable[..., None]) -> Callable[..., None]:
    """The arguments of condor_submit_dag."""
    settings = {"ignore_unknown_options": True}
    words = click.argument(
        "words", metavar="[OPTION]... FILE...", nargs=-1, type=click.UNPROCESSED, required=True
    )
    return cli.command(context_settings=settings)(words(function))


@_submitting
def submit(words: tuple[str, ...]) -> None:
    """Submit a DAG, and return at once.

    The options are those of HTCondor's condor_submit_dag.

    \b
    Example:
      fetchwork dag submit my.dag
      fetchwork dag submit -maxjobs 100 my.dag
    """
    _submitted(words)


@_submitting
@click.pass_context
def run(context: click.Context, words: tuple[str, ...]) -> None:
    """Submit a DAG, and show how far it is until it has ended.

    The exit status is that of the DAG: 0 if all of its nodes were successful. Ctrl-C ends the view; the DAG
    goes on.

    \b
    Example:
      fetchwork dag run my.dag
    """
    cluster = _submitted(words)
    from fetchwork.queue.remote import opened

    session = opened(None)
    context.call_on_close(session.close)
    shown: object = None
    while True:
        ad = _find(session, cluster)
        counts = tuple(ad.get(name) for name in (status.TOTAL, *status.ATTRIBUTES.values()))
        if (ad["JobStatus"], counts) != shown:
            shown = (ad["JobStatus"], counts)
            output.echo(f"{time.strftime('%H:%M:%S')} DAG {cluster} {_state(ad)}: {_sentence(ad)}")
            sys.stdout.flush()
        if ad["JobStatus"] in (JobStatus.COMPLETED, JobStatus.REMOVED) and ad["ended"]:
            code = ad.get("ExitCode")
            context.exit(code if isinstance(code, int) else 1)
        time.sleep(LOOK_S)


def _submitted(words: Sequence[str]) -> int:
    """Submit by HTCondor's condor_submit_dag; the DAG's number. Prints what that prints."""
    from fetchwork.condor import directory, submitdag

    if socket_path() is None:
        raise FetchworkError(
            "a DAG is run by an access point, and this host has none; 'fetchwork access-point' starts one"
        )
    refusals = submitdag.refusals(words, os.environ, Path.cwd())
    if refusals:
        raise FetchworkError("; ".join(refusals))
    own = programs.program("condor_submit_dag", os.environ)
    ended = subprocess.run(
        [own, *words],
        env=environment.of_submit_dag(os.environ, directory.made()),
        capture_output=True,
        text=True,
        check=False,
    )
    output.echo(ended.stdout, nl=False)
    output.echo(ended.stderr, nl=False, err=True)
    found = re.search(r"submitted to cluster (\d+)\.", ended.stdout)
    if ended.returncode or found is None:
        raise FetchworkError("condor_submit_dag did not submit the DAG")
    return int(found[1])


def _find(session: AnySession, cluster: int) -> Json:
    """The ad of a DAG's job, in the queue or in the history; ``ended`` tells which. Raises NotFound."""
    constraint = f"ClusterId == {cluster} && JobUniverse == 7"
    # between the two it is in neither, for a reader who asks first for the one and then for the other
    for operation in ("jobs", "history", "jobs"):
        arguments: Json = {"constraint": constraint, "projection": list(_WANTED), "limit": 1}
        if operation == "history":
            ads = list(session.items("view", name="history", **arguments))
        else:
            ads = list(session.items("jobs", **arguments))
        if ads:
            return {**ads[0], "ended": operation == "history"}
    raise NotFound(f"there is no DAG {cluster}")


def _state(ad: Json) -> str:
    state = _LETTERS.get(ad["JobStatus"], "?")
    if ad["JobStatus"] != JobStatus.COMPLETED:
        return state
    if ad.get("ExitSignal") is not None:
        return f"ended by signal {ad['ExitSignal']}"
    return "successful" if ad.get("ExitCode") == 0 else f"failed, exit {ad.get('ExitCode')}"


def _sentence(ad: Json) -> str:
    if status.TOTAL not in ad:
        return str(ad.get("HoldReason") or "its nodes are not known yet")
    counts = [(name, ad.get(attribute, 0)) for name, attribute in status.ATTRIBUTES.items()]
    parts = ", ".join(f"{number} {name.lower()}" for name, number in counts if number)
    return f"{parts or 'nothing yet'} of {ad[status.TOTAL]} nodes"


def _file(ad: Json) -> str:
    """The DAG file that a condor_dagman's arguments name."""
    words = str(ad.get("Arguments") or ad.get("Args") or "").split()
    lower = [word.lower() for word in words]
    return words[lower.index("-dag") + 1] if "-dag" in lower[:-1] else "?"


@cli.command(name="status")
@click.argument("dags", metavar="[DAG]...", nargs=-1, type=int)
@options.json_option
@options.performing
def show(session: AnySession, dags: tuple[int, ...], as_json: bool) -> None:
    """Show how far DAGs are: those in the queue, or those named.

    \b
    Example:
      fetchwork dag status
      fetchwork dag status 42
    """
    if dags:
        ads = [_find(session, cluster) for cluster in dags]
    else:
        constraint = "JobUniverse == 7"
        ads = list(session.items("jobs", constraint=constraint, projection=list(_WANTED)))
        ads = [ad for ad in ads if environment.is_dagman(str(ad.get("Cmd")))]
    if as_json:
        output.print_json(ads)
        return
    rows = [
        (
            str(ad["ClusterId"]),
            ad["Owner"],
            _state(ad),
            *(ad.get(status.ATTRIBUTES[name], "") for name in _COUNTS),
            ad.get(status.TOTAL, ""),
            _file(ad),
        )
        for ad in ads
    ]
    heading = ("DAG", "OWNER", "STATE", *(name.upper() for name in _COUNTS), "TOTAL", "FILE")
    output.table(heading, rows, right=range(3, 12))
    for ad in ads:
        if ad.get("HoldReason"):
            output.echo(f"{ad['ClusterId']} is held: {ad['HoldReason']}")


def _acting(name: str, action: str, text: str) -> None:
    @cli.command(name=name, help=text)
    @click.argument("dags", metavar="DAG...", nargs=-1, type=int, required=True)
    @options.performing
    def act(session: AnySession, dags: tuple[int, ...]) -> None:
        for cluster in dags:
            _find(session, cluster)
            changed = session.perform("change", action=action, spec=[f"{cluster}.0"])["changed"]
            if not changed:
                raise FetchworkError(f"DAG {cluster} is in no state for that")
            output.echo(f"DAG {cluster}: {name}")


_acting(
    "rm",
    "Remove",
    """Remove DAGs, with their nodes; each leaves a rescue file.

\b
Example:
  fetchwork dag rm 42
""",
)
_acting(
    "hold",
    "Hold",
    """Hold DAGs: no more of their nodes are submitted; those that were run on.

\b
Example:
  fetchwork dag hold 42
""",
)
_acting(
    "release",
    "Release",
    """Release held DAGs, which go on where they were.

\b
Example:
  fetchwork dag release 42
""",
)


@cli.command()
@click.argument("cluster", metavar="DAG", type=int)
@options.performing
def rescue(session: AnySession, cluster: int) -> None:
    """Submit a DAG that failed or was removed once more, from its newest rescue file.

    \b
    Example:
      fetchwork dag rescue 42
    """
    ad = _find(session, cluster)
    if not ad["ended"]:
        raise FetchworkError(f"DAG {cluster} has not ended: it is {_state(ad)}")
    path = Path(str(ad["Iwd"])) / _file(ad)
    rescues = sorted(path.parent.glob(f"{path.name}.rescue[0-9][0-9][0-9]"))
    if not rescues:
        raise FetchworkError(f"DAG {cluster} has no rescue file beside '{path}': it left nothing to do")
    os.chdir(str(ad["Iwd"]))
    output.echo(f"from {rescues[-1]}")
    _submitted(["-update_submit", _file(ad)])


@cli.command()
@click.argument("cluster", metavar="DAG", type=int)
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write.  [default: dag-DAG.svg]",
)
@options.performing
def draw(session: AnySession, cluster: int, target: Path | None) -> None:
    """Draw a DAG with the states and times of its nodes, as SVG.

    \b
    Example:
      fetchwork dag draw 42 -o my.svg
    """
    ad = _find(session, cluster)
    path = Path(str(ad["Iwd"])) / _file(ad)
    try:
        nodes = graph.read(path)
    except OSError as error:
        raise FetchworkError(f"cannot read DAG file '{path}': {error.strerror}") from None
    wanted = (
        "DAGNodeName",
        "JobStatus",
        "ExitCode",
        "RemoteWallClockTime",
        "JobCurrentStartDate",
        "ClusterId",
    )
    constraint = f"DAGManJobId == {cluster}"
    ads = [
        *session.items("view", name="history", constraint=constraint, projection=list(wanted)),
        *session.items("jobs", constraint=constraint, projection=list(wanted)),
    ]
    states = {
        str(one["DAGNodeName"]): _node_state(one)
        for one in sorted(ads, key=lambda one: int(one["ClusterId"]))
        if "DAGNodeName" in one
    }
    target = target or Path(f"dag-{cluster}.svg")
    target.write_text(drawing.svg(nodes, states, f"{_file(ad)}: DAG {cluster} {_state(ad)}"))
    output.echo(str(target))


def _node_state(ad: Json) -> drawing.NodeState:
    took = ad.get("RemoteWallClockTime")
    seconds = float(took) if isinstance(took, int | float) and took else None
    if ad["JobStatus"] == JobStatus.COMPLETED:
        return drawing.NodeState("done" if ad.get("ExitCode") == 0 else "failed", seconds)
    if ad["JobStatus"] == JobStatus.RUNNING:
        started = ad.get("JobCurrentStartDate")
        return drawing.NodeState("running", time.time() - float(started) if started else None)
    return drawing.NodeState(_LETTERS.get(ad["JobStatus"], "waits"), seconds)
