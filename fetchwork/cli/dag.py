"""``fetchwork dag``: DAGs, run by HTCondor's condor_dagman over the queue."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.accesspoint.scheduler import jobargs
from fetchwork.cli import dagview, options, output
from fetchwork.client.link import socket_path
from fetchwork.codes import JobStatus
from fetchwork.dag import drawing, environment, graph, nodeslog, programs, status
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.ipc.frames import Json
    from fetchwork.queue.reading.dags import DagView
    from fetchwork.queue.remote import AnySession

_COUNTS = ("Done", "Pre", "Queued", "Post", "Ready", "Un-Ready", "Failed", "Futile")


@click.group()
def cli() -> None:
    """DAGs, run by HTCondor's condor_dagman over the queue.

    A DAG is a job of the access point's host, which takes no slot; its nodes are jobs like all others.

    \b
    Example:
      fetchwork dag run my.dag
      fetchwork dag status 42
      fetchwork watch 42
    """


def _submitting(function: Callable[..., None]) -> Callable[..., None]:
    """The arguments of condor_submit_dag."""
    settings = {"ignore_unknown_options": True}
    words = click.argument(
        "words", metavar="[OPTION]... FILE...", nargs=-1, type=click.UNPROCESSED, required=True
    )
    return cli.command(context_settings=settings)(words(options.json_option(function)))


@_submitting
def submit(words: tuple[str, ...], as_json: bool) -> None:
    """Submit a DAG, and return at once.

    The options are those of HTCondor's condor_submit_dag.

    \b
    Example:
      fetchwork dag submit my.dag
      fetchwork dag submit -maxjobs 100 my.dag
    """
    cluster = _submitted(words, quiet=as_json)
    if as_json:
        output.print_json({"dag": cluster})


@_submitting
@click.pass_context
def run(context: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Submit a DAG, and show its progress until it ends.

    The options are those of HTCondor's condor_submit_dag. The exit status is that of the DAG: 0 if all of its
    nodes were successful. Ctrl-C ends the view; the DAG goes on. With --json each change is a JSON
    object on a line of its own.

    \b
    Example:
      fetchwork dag run my.dag
      fetchwork dag run -maxidle 500 my.dag
    """
    cluster = _submitted(words, quiet=as_json)
    from fetchwork.queue.remote import opened

    session = opened(None)
    context.call_on_close(session.close)
    try:
        ended = dagview.follow(session, cluster, dagview.LOOK_S, to_json=as_json)
    except KeyboardInterrupt:
        output.echo(
            f"DAG {cluster} goes on; 'fetchwork watch {cluster}' shows it,"
            f" 'fetchwork dag rm {cluster}' removes it",
            err=True,
        )
        raise
    if ended["ad"]["JobStatus"] == JobStatus.REMOVED or dagview.exit_status(ended):
        _say_rest(ended["ad"])
    context.exit(dagview.exit_status(ended))


def _say_rest(ad: Json) -> None:
    """Print how to go on with a DAG that was not successful."""
    cluster, names = ad["ClusterId"], dagview.files(ad)
    where = f"'{Path(str(ad['Iwd'])) / names[0]}.dagman.out' says why" if names else "its log says why"
    rest = f"; 'fetchwork dag rescue {cluster}' submits what is left" if _rescue_files(ad) else ""
    output.echo(f"DAG {cluster} {dagview.state(ad)}: {where}{rest}", err=True)


def _rescue_files(ad: Json) -> list[Path]:
    """Return a DAG's rescue files, the newest last; DAGMan names them after the first of several files."""
    names = dagview.files(ad)
    if not names:
        return []
    path = Path(str(ad["Iwd"])) / names[0]
    of_several = "_multi" if len(names) > 1 else ""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}{of_several}.rescue[0-9][0-9][0-9]"))


def _submitted(words: Sequence[str], *, quiet: bool = False) -> int:
    """Run HTCondor's condor_submit_dag and return the DAG's number; print its output unless ``quiet``."""
    from fetchwork.condor import directory, submitdag

    if socket_path() is None:
        raise FetchworkError(
            "a DAG is run by an access point, and this host has none; 'fetchwork access-point' starts one"
        )
    for name in submitdag.files(words):
        if not Path(name).is_file():
            raise FetchworkError(f"there is no DAG file '{name}'")
    _refuse_second(submitdag.files(words))
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
    if not quiet:
        output.echo(ended.stdout, nl=False)
    output.echo(ended.stderr, nl=False, err=True)
    found = re.search(r"submitted to cluster (\d+)\.", ended.stdout)
    if ended.returncode or found is None:
        raise FetchworkError("condor_submit_dag did not submit the DAG")
    return int(found[1])


def _refuse_second(names: Sequence[str]) -> None:
    """Raise FetchworkError if a DAG of the same file runs: its condor_dagman would end a second one."""
    from fetchwork.queue.remote import opened

    with opened(None) as session:
        for ad in session.items("scheduler_jobs", projection=list(dagview.WANTED)):
            runs = ad["JobStatus"] in (JobStatus.IDLE, JobStatus.RUNNING)
            theirs = dagview.files(ad) if runs else []
            if theirs and names and Path(str(ad["Iwd"]), theirs[0]).resolve() == Path(names[0]).resolve():
                raise FetchworkError(
                    f"DAG {ad['ClusterId']} runs '{names[0]}'; 'fetchwork watch {ad['ClusterId']}' shows it"
                )


@cli.command(name="status")
@click.argument("dags", metavar="[DAG]...", nargs=-1, type=int)
@options.json_option
@options.performing
def show(session: AnySession, dags: tuple[int, ...], as_json: bool) -> None:
    """Show the progress of DAGs: of all in the queue, or of the named ones.

    \b
    Example:
      fetchwork dag status
      fetchwork dag status 42
    """
    if dags:
        ads = [_find(session, cluster)["ad"] for cluster in dags]
    else:
        found = session.items("scheduler_jobs", projection=list(dagview.WANTED))
        ads = [ad for ad in found if environment.is_dagman(str(ad.get("Cmd")))]
    if as_json:
        output.print_json(ads)
        return
    rows = [
        (
            str(ad["ClusterId"]),
            ad["Owner"],
            dagview.state(ad),
            *(ad.get(status.ATTRIBUTES[name], "") for name in _COUNTS),
            ad.get(status.TOTAL, ""),
            ", ".join(dagview.files(ad)),
        )
        for ad in ads
    ]
    heading = ("DAG", "OWNER", "STATE", *(name.upper() for name in _COUNTS), "TOTAL", "FILE")
    output.table(heading, rows, right=range(3, 12))
    for ad in ads:
        if ad.get("HoldReason"):
            output.echo(f"{ad['ClusterId']} is held: {ad['HoldReason']}")


def _acting(name: str, action: str, done: str, text: str) -> None:
    @cli.command(name=name, help=text)
    @click.argument("dags", metavar="DAG...", nargs=-1, type=int, required=True)
    @options.performing
    def act(session: AnySession, dags: tuple[int, ...]) -> None:
        for cluster in dags:
            view = _find(session, cluster)
            changed = session.perform("change", action=action, spec=[f"{cluster}.0"])["changed"]
            if not changed:
                state = dagview.state(view["ad"])
                raise FetchworkError(f"DAG {cluster} can't be {re.split(r'[ ,;]', done)[0]}: it is {state}")
            output.echo(f"DAG {cluster} is {done}")


_acting(
    "rm",
    "Remove",
    "removed with its nodes, and leaves a rescue file",
    """Remove DAGs, with their nodes; each leaves a rescue file.

\b
Example:
  fetchwork dag rm 42
""",
)
_acting(
    "hold",
    "Hold",
    "held; those of its nodes that were submitted go on",
    """Hold DAGs: no more of their nodes are submitted; those that were run on.

\b
Example:
  fetchwork dag hold 42
""",
)
_acting(
    "release",
    "Release",
    "released, and goes on where it was",
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
    view = _find(session, cluster)
    ad = view["ad"]
    if not view["ended"]:
        raise FetchworkError(f"DAG {cluster} has not ended: it is {dagview.state(ad)}")
    names, rescues = dagview.files(ad), _rescue_files(ad)
    if not rescues:
        raise FetchworkError(
            f"DAG {cluster} is {dagview.state(ad)}, and left no rescue file in '{ad['Iwd']}'"
        )
    try:
        os.chdir(str(ad["Iwd"]))
    except OSError as error:
        raise FetchworkError(
            f"cannot enter directory '{ad['Iwd']}' of DAG {cluster}: {error.strerror}"
        ) from None
    output.echo(f"from {rescues[-1]}")
    # condor_submit_dag finds the earlier options in its submit file
    _submitted(["-update_submit", *names])


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
    ad = _find(session, cluster)["ad"]
    names, cwd = dagview.files(ad), Path(str(ad["Iwd"]))
    paths = [cwd / name for name in names]
    own = "-usedagdir" in (word.lower() for word in jobargs.arguments(ad))
    try:
        nodes = graph.read_all([(path, path.parent if own else cwd) for path in paths])
    except OSError as error:
        raise FetchworkError(f"cannot read DAG file '{error.filename}': {error.strerror}") from None
    try:
        states = nodeslog.states(paths[0].with_name(f"{paths[0].name}.nodes.log")) if paths else {}
    except OSError:
        # nothing of it was submitted yet
        states = {}
    target = target or Path(f"dag-{cluster}.svg")
    try:
        target.write_text(
            drawing.svg(nodes, states, f"{', '.join(names)}: DAG {cluster} {dagview.state(ad)}")
        )
    except OSError as error:
        raise FetchworkError(f"cannot write '{target}': {error.strerror}") from None
    output.echo(str(target))


def _find(session: AnySession, cluster: int) -> DagView:
    """Return a DAG without its nested DAGs; raises NotFound."""
    return dagview.look(session, cluster)[0]
