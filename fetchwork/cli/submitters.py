"""``fetchwork submitters``, ``prio`` and ``limit``: usage, priority factors and limits of submitters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession


@click.command()
@options.constraint_option
@options.json_option
@options.performing
def submitters(session: AnySession, constraints: tuple[str, ...], as_json: bool) -> None:
    """Show submitters' usage, and who is next: the smallest priority value is served first.

    Constraints refer to attributes of the submitter: Name, Priority, RunningJobs, AccumulatedUsage, ...

    \b
    Example:
      fetchwork submitters
      fetchwork submitters -constraint 'RunningJobs > 0'
    """
    constraint = options.jobs_constraint((), constraints)
    _show(list(session.items("view", name="submitters", constraint=constraint)), as_json)


def _show(known: list[Json], as_json: bool) -> None:
    if as_json:
        output.print_json(known)
        return
    lines = [
        [
            ad["Name"],
            output.number(ad["Priority"]),
            output.number(ad["PriorityFactor"]),
            ad["RunningJobs"],
            ad.get("MaxRunning"),
            ad.get("MaxIdle"),
            ad.get("MaxAutoclusters"),
            output.number(ad["AccumulatedUsage"] / 3600),
        ]
        for ad in known
    ]
    heading = (
        *("SUBMITTER", "PRIORITY", "FACTOR", "RUNNING", "LIMIT", "MAX_IDLE", "MAX_AUTOCLUSTERS"),
        "USAGE_HOURS",
    )
    output.table(heading, lines, right=(1, 2, 3, 4, 5, 6, 7))


@click.command()
@click.argument("submitter", required=False)
@click.option(
    "--factor", type=click.FloatRange(1), help="Priority factor: twice the factor is half the share."
)
@click.option("--max-running", metavar="N", help="Run at most this many jobs at once; 'none' for no limit.")
@click.option(
    "--max-idle",
    metavar="N",
    help="Refuse submissions with which it would have more idle jobs; 0 for no ceiling,"
    " 'none' for the setting max_idle_per_submitter.",
)
@click.option(
    "--max-autoclusters",
    metavar="N",
    help="Refuse submissions and edits with which its jobs would have more autoclusters; 0 for no ceiling,"
    " 'none' for the setting max_autoclusters_per_submitter.",
)
@click.option("--reset-usage", is_flag=True, help="Reset the recorded usage.")
@options.json_option
@options.performing
def prio(
    session: AnySession,
    submitter: str | None,
    factor: float | None,
    max_running: str | None,
    max_idle: str | None,
    max_autoclusters: str | None,
    reset_usage: bool,
    as_json: bool,
) -> None:
    """Set a submitter's priority factor or limits.

    A submitter is an accounting group, or an owner without one. 'fetchwork submitters' shows usage and
    priority.

    \b
    Example:
      fetchwork prio
      fetchwork prio alice --factor 500
      fetchwork prio group_physics.bob --max-running 200 --max-idle 5000
    """
    from fetchwork.db.calls import administration

    changes: dict[str, float | None] = {}
    if factor is not None:
        changes["prio_factor"] = factor
    if max_running is not None:
        changes["max_running"] = options.number_or_none("--max-running", max_running)
    if max_idle is not None:
        changes["max_idle"] = options.number_or_none("--max-idle", max_idle)
    if max_autoclusters is not None:
        changes["max_autoclusters"] = options.number_or_none("--max-autoclusters", max_autoclusters)
    if reset_usage:
        changes["usage"] = 0
    if changes and submitter is None:
        raise click.UsageError("no submitter named")
    if submitter is not None and not changes:
        raise click.UsageError(
            f"nothing to set for '{submitter}'; allowed: --factor, --max-running, --max-idle,"
            " --max-autoclusters, --reset-usage"
        )
    if submitter is not None:
        options.database_of(session).run(administration.set_submitter(name=submitter, changes=changes))
    known = list(session.items("view", name="submitters"))
    _show([ad for ad in known if submitter in (None, ad["Name"])], as_json)


@click.command()
@click.argument("name", required=False)
@click.argument("maximum", metavar="[N|none]", required=False)
@click.option(
    "--starts",
    metavar="N/T",
    help="Start at most N of its jobs in any time T (such as 10/1s, 500/m, 100/1.5h); 'none' for no limit.",
)
@click.option("--queue", "scope", flag_value="queue", help="NAME is a queue, whose starts are limited.")
@click.option("--owner", "scope", flag_value="owner", help="NAME is an owner, whose starts are limited.")
@click.option(
    "--group",
    "scope",
    flag_value="group",
    help="NAME is an accounting group: starts in it and in the groups below it are limited.",
)
@options.json_option
@options.performing
def limit(
    session: AnySession,
    name: str | None,
    maximum: str | None,
    starts: str | None,
    scope: str | None,
    as_json: bool,
) -> None:
    """Show and set concurrency limits (HTCondor's <NAME>_LIMIT) and limits on starts.

    N is the number that running jobs may use together; 'none' takes the limit away. A limit on starts counts
    each job that a slot is offered, also if its start fails.

    \b
    Example:
      fetchwork limit
      fetchwork limit license 20
      fetchwork limit license none
      fetchwork limit db --starts 10/1s
      fetchwork limit urgent --queue --starts 500/1m
      fetchwork limit physics --group --starts 10/1s
    """
    from fetchwork.db.calls import administration

    if starts is not None and name is None:
        raise click.UsageError("no limit named")
    if scope is not None and (maximum is not None or starts is None):
        raise click.UsageError(f"--{scope} needs --starts, and no number of running jobs")
    if name is not None and starts is not None:
        count, seconds = _starts(starts)
        options.database_of(session).run(
            administration.set_starts(scope=scope or "limit", name=name, starts=count, seconds=seconds)
        )
    if name is not None and maximum is not None:
        options.database_of(session).run(
            administration.set_limit(name=name, maximum=options.number_or_none("N", maximum, whole=False))
        )
    # names of concurrency limits and groups are in lower case
    named = {name, name.lower()} if name is not None and scope in (None, "group") else {name}
    limits = [ad for ad in session.items("view", name="limits") if name is None or ad["Name"] in named]
    if as_json:
        output.print_json(limits)
        return
    lines = [
        [
            ad["Name"],
            ad["Scope"],
            output.number(ad.get("Maximum")),
            output.number(ad.get("Used")),
            f"{ad['MaxStarts']}/{output.number(ad['StartsSeconds'], 3)}s" if "MaxStarts" in ad else "",
            ad.get("Started"),
        ]
        for ad in limits
    ]
    output.table(("LIMIT", "SCOPE", "MAXIMUM", "IN_USE", "MAX_STARTS", "STARTED"), lines, right=(2, 3, 4, 5))


def _starts(text: str) -> tuple[int | None, float | None]:
    """The number and the seconds of a limit on starts such as 10/1s; None for both of 'none'."""
    if text == "none":
        return None, None
    count, _, time = text.partition("/")
    factor = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(time[-1:])
    try:
        if factor is not None:
            return int(count), float(time[:-1] or 1) * factor
    except ValueError:
        pass
    raise click.UsageError(
        f"--starts is '{text}'; allowed: a number and a time with s, m, h or d, such as 10/1s, or 'none'"
    )
