"""The part of ``fetchwork submit`` that takes over the idle jobs of a schedd."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from fetchwork.cli import output

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession
    from fetchwork.queue.submitting.fromschedd import Move, ScheddCluster


def move(
    session: AnySession,
    ads: Sequence[Json],
    *,
    extra: Mapping[str, object],
    partly: bool,
    dry_run: bool,
    as_json: bool,
    schedd: str | None = None,
    originals: str | None = None,
) -> None:
    """Submit a schedd's idle jobs, each cluster as one; first list jobs that can't be moved, and why.

    ``originals``: the action on the jobs at ``schedd``, for each cluster after its copy is committed. An
    interrupted move can be repeated: no job is copied twice.
    """
    from fetchwork.queue.submitting.fromschedd import planned

    plan = planned(ads, lambda jobs: session.check(jobs, extra=extra))
    _tell(plan)
    if plan.stay and not partly and not dry_run:
        raise click.ClickException(
            f"{len(plan.stay)} of {len(plan.stay) + plan.number} idle jobs can't come, so none does;"
            " --partly takes the others"
        )
    done = []
    for cluster in [] if dry_run else plan.clusters:
        result = session.submit(cluster.ads, extra=extra, key=cluster.key)
        done.append({"From": cluster.cluster, "ClusterId": result.cluster(), "jobs": len(cluster.ads)})
        if not as_json:
            output.echo(
                f"cluster {cluster.cluster}: {len(cluster.ads)} job(s) to cluster {result.cluster()}."
            )
        if originals is not None:
            _end(schedd, originals, cluster, result.cluster())
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


def _end(schedd: str | None, how: str, cluster: ScheddCluster, here: int) -> None:
    from fetchwork.classad.bindings import JobAction
    from fetchwork.classad.schedd import ScheddQueue

    action = JobAction.Hold if how == "hold" else JobAction.Remove
    done = ScheddQueue(schedd).act(action, cluster.jobs, f"moved to cluster {here} of fetchwork")
    if done != len(cluster.jobs):
        output.echo(
            f"fetchwork: warning: of the originals of cluster {cluster.cluster}, {len(cluster.jobs) - done}"
            f" could not be {'held' if how == 'hold' else 'removed'}: they may run in both",
            err=True,
        )


def _tell(plan: Move) -> None:
    for job, reason in plan.stay:
        output.echo(f"{job} can't come: {' '.join(reason.split())}", err=True)
    if plan.others:
        words = ", ".join(f"{number} {name}" for name, number in sorted(plan.others.items()))
        output.echo(f"not idle, and not looked at: {words}", err=True)
