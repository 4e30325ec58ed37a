"""The part of ``fetchwork submit`` that takes over the idle jobs of a schedd."""

from __future__ import annotations

import getpass
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fetchwork.cli import output
from fetchwork.errors import SubmitError

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession
    from fetchwork.queue.submitting.fromschedd import Move, Originals, ScheddCluster


def move(
    session: AnySession,
    ads: Sequence[Json],
    *,
    extra: Mapping[str, object],
    partly: bool,
    dry_run: bool,
    as_json: bool,
    originals: Originals | None = None,
) -> None:
    """Submit a schedd's idle jobs, each cluster as one; first list jobs that can't be moved, and why.

    ``originals``: the jobs at the living schedd, None for ads of a file. An interrupted move can be repeated:
    no job is copied twice.
    """
    from fetchwork.queue.submitting.fromschedd import as_submitted, planned

    def check(jobs: list[Json]) -> None:
        with _as_owner(session, jobs):
            session.check(jobs, extra=extra)

    plan = planned(ads, check)
    _tell(plan)
    if plan.stay and not partly and not dry_run:
        raise click.ClickException(
            f"{len(plan.stay)} of {len(plan.stay) + plan.number} idle jobs can't come, so none does;"
            " --partly takes the others"
        )
    done = []
    for planned_cluster in [] if dry_run else plan.clusters:
        cluster = planned_cluster if originals is None else _hold(originals, planned_cluster)
        if not cluster.ads:
            continue
        copies = [as_submitted(ad) for ad in cluster.ads]
        with _held(originals, cluster), _as_owner(session, copies):
            here = session.submit(copies, extra=extra, key=f"schedd {cluster.key}").cluster()
        done.append({"From": cluster.cluster, "ClusterId": here, "jobs": len(cluster.ads)})
        if not as_json:
            output.echo(f"cluster {cluster.cluster}: {len(cluster.ads)} job(s) to cluster {here}.")
        if originals is not None:
            originals.have_moved(cluster, here)
    if as_json:
        stay = [{"job": job, "reason": reason} for job, reason in plan.stay]
        output.print_json({"moved": done, "stay": stay, "not_idle": plan.others})
    elif dry_run:
        output.echo(f"{plan.number} job(s) of {len(plan.clusters)} cluster(s) would come.")


def jobs_of(schedd: str | None, constraints: Sequence[str]) -> list[Json]:
    """Return the ads of a schedd's jobs: the selected ones, else the caller's own, for root all."""
    from fetchwork.classad.schedd import ScheddQueue
    from fetchwork.queue.constraints.constraint import joined

    mine = "true" if os.geteuid() == 0 else f'Owner == "{getpass.getuser()}"'
    return ScheddQueue(schedd).jobs(joined(constraints) if constraints else mine)


def originals_of(schedd: str | None, how: str | None) -> Originals:
    """Return the jobs of a schedd, which stay held once they have moved, or are removed ("remove")."""
    from fetchwork.classad.schedd import ScheddQueue
    from fetchwork.queue.submitting.fromschedd import Originals

    return Originals(ScheddQueue(schedd), remove=how == "remove")


def _hold(originals: Originals, cluster: ScheddCluster) -> ScheddCluster:
    """Hold the jobs of a cluster at the schedd, and tell if some can't be."""
    held = originals.hold(cluster)
    if left := len(cluster.ads) - len(held.ads):
        output.echo(
            f"fetchwork: warning: {left} job(s) of cluster {cluster.cluster} could not be held and stay:"
            " they are not idle any more, or belong to others",
            err=True,
        )
    return held


@contextmanager
def _held(originals: Originals | None, cluster: ScheddCluster) -> Iterator[None]:
    """While a cluster is submitted: if it is refused its originals are released, else they stay held."""
    from fetchwork.errors import AccessPointUnavailable, DatabaseUnavailable, FetchworkError

    try:
        yield
    except (AccessPointUnavailable, DatabaseUnavailable):
        if originals is not None:
            output.echo(
                f"fetchwork: warning: the jobs of cluster {cluster.cluster} stay held at the schedd:"
                " repeat the command, which brings them once",
                err=True,
            )
        raise
    except FetchworkError:
        if originals is not None:
            originals.release(cluster)
        raise


@contextmanager
def _as_owner(session: AnySession, jobs: Sequence[Json]) -> Iterator[None]:
    """With the rights of the jobs' Owner on files if root moves them: jobs may name files of others.

    Raises SubmitError if they need files, and their Owner has no account here.
    """
    from fetchwork.queue.outputs.retrieving import acting_for
    from fetchwork.queue.session import Session
    from fetchwork.queue.submitting import inputs, jobads

    # an access point reads files as the account that it serves
    if os.geteuid() != 0 or not isinstance(session, Session):
        yield
        return
    owner = str(jobs[0].get("Owner"))
    try:
        pwd.getpwnam(owner)
    except KeyError:
        try:
            inputs.needed(jobads.from_ads(jobs), inputs.shared_directories(), reads=False)
        except SubmitError:
            raise SubmitError(f"its files are its Owner's, and '{owner}' has no account here") from None
        yield
        return
    # connects with root's password file, which the Owner can't read
    list(session.items("view", name="queues"))
    with acting_for(owner):
        yield


def _tell(plan: Move) -> None:
    """Name the jobs that don't move, and why: a line for those of a cluster with the same reason."""
    from fetchwork.queue.submitting.fromschedd import ranges

    others = [(job, f"it is {state}, not idle") for state, jobs in plan.others.items() for job in jobs]
    lines: dict[tuple[str, str], list[int]] = {}
    for job, reason in [*plan.stay, *others]:
        cluster, _, proc = job.partition(".")
        lines.setdefault((cluster, " ".join(reason.split())), []).append(int(proc))
    for (cluster, reason), procs in lines.items():
        spans = (str(first) if first == last else f"{first}-{last}" for first, last in ranges(sorted(procs)))
        output.echo(f"{cluster}.{','.join(spans)} can't come: {reason}", err=True)
