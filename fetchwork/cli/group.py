"""``fetchwork group``: quotas and ceilings of accounting groups."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import FetchworkError

if TYPE_CHECKING:
    from fetchwork.queue.reading.views import Json
    from fetchwork.queue.remote import AnySession

#: HTCondor's settings of quotas that this queue has no like of -> the values that ask for nothing else, why
UNLIKE = {
    "GROUP_SORT_EXPR": (
        (
            'ifThenElse(AccountingGroup=?="<none>",3.4e+38,ifThenElse(GroupQuota>0,'
            "GroupResourcesInUse/GroupQuota,3.3e+38))",
        ),
        "the group furthest below what is due to it is next",
    ),
    "GROUP_DYNAMIC_MACH_CONSTRAINT": ((), "all slots are the pool"),
    "NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT": ((), "all slots are the pool"),
    "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION": (("true",), "quotas may exceed that of the group above"),
    "NEGOTIATOR_STRICT_ENFORCE_QUOTA": (("true",), "a quota above bounds the groups below"),
    "NEGOTIATOR_USE_WEIGHTED_DEMAND": (("true",), "demand counts RequestCpus"),
    "NEGOTIATOR_USE_SLOT_WEIGHTS": (("true",), "quotas count SlotWeight"),
}


@click.group()
def cli() -> None:
    """Show and set quotas and ceilings of accounting groups.

    A group's jobs are those with accounting_group = GROUP, of any user. Quotas count slots by their
    SlotWeight, and divide the pool as HTCondor's negotiator does with GROUP_NAMES.

    \b
    Example:
      fetchwork group set physics --quota 300
      fetchwork group set physics.atlas --share 0.4 --accept-surplus
      fetchwork group list
    """


@cli.command("set")
@click.argument("name")
@click.option(
    "--quota", type=click.FloatRange(0), metavar="N", help="So many slots are its (GROUP_QUOTA_<name>)."
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1),
    metavar="X",
    help="This part of what quotas leave of the group above is its (GROUP_QUOTA_DYNAMIC_<name>).",
)
@click.option(
    "--accept-surplus/--no-surplus",
    default=None,
    help="It may use slots that other groups leave, or not (GROUP_ACCEPT_SURPLUS_<name>).",
)
@click.option(
    "--max-idle",
    metavar="N",
    help="Refuse submissions with which more jobs of it and of the groups below it would be idle; 'none' for"
    " no ceiling.",
)
@click.option(
    "--max-autoclusters",
    metavar="N",
    help="Refuse submissions and edits with which jobs of it and of the groups below it would have more"
    " autoclusters; 'none' for no ceiling.",
)
@click.option(
    "--autoregroup/--no-autoregroup",
    default=None,
    help="Beyond its quota it competes with all other groups for free slots (GROUP_AUTOREGROUP_<name>).",
)
@click.option(
    "--factor",
    metavar="X",
    help="Priority factor of its users without one of their own; 'none' for the setting"
    " default_prio_factor (GROUP_PRIO_FACTOR_<name>).",
)
@click.option(
    "--manager",
    "managers",
    multiple=True,
    metavar="ROLE",
    help="A database role that may set the groups below it (may be repeated); 'none' for no role.",
)
@options.json_option
@options.performing
def set_group(
    session: AnySession,
    name: str,
    quota: float | None,
    share: float | None,
    accept_surplus: bool | None,
    max_idle: str | None,
    max_autoclusters: str | None,
    autoregroup: bool | None,
    factor: str | None,
    managers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a group with a quota, or change one.

    \b
    Example:
      fetchwork group set physics --quota 300
      fetchwork group set physics.atlas --share 0.4 --accept-surplus
      fetchwork group set bio --autoregroup --factor 500
      fetchwork group set physics --max-idle 100000 --max-autoclusters 2000
    """
    given = {
        "quota": quota,
        "dynamic_quota": share,
        "accept_surplus": accept_surplus,
        "autoregroup": autoregroup,
    }
    changes: Json = {key: value for key, value in given.items() if value is not None}
    if max_idle is not None:
        changes["max_idle"] = options.number_or_none("--max-idle", max_idle)
    if max_autoclusters is not None:
        changes["max_autoclusters"] = options.number_or_none("--max-autoclusters", max_autoclusters)
    if factor is not None:
        changes["prio_factor"] = options.number_or_none("--factor", factor, whole=False)
    if managers:
        changes["managers"] = [] if managers == ("none",) else list(managers)
    if quota is not None and share is not None:
        raise click.UsageError("a group has --quota or --share, not both")
    if not changes:
        raise click.UsageError(
            f"nothing to set for '{name}'; allowed: --quota, --share, --accept-surplus, ..."
        )
    _set(session, name, changes)
    _show(session, as_json, name)


@cli.command()
@click.argument("name")
@options.performing
def remove(session: AnySession, name: str) -> None:
    """Remove a group, with the groups below it.

    Its jobs stay, and belong to the group above it.

    \b
    Example:
      fetchwork group remove physics.atlas
    """
    from fetchwork.db.calls import administration

    options.database_of(session).run(administration.remove_group(name=name))


@cli.command("list")
@options.json_option
@options.performing
def list_groups(session: AnySession, as_json: bool) -> None:
    """Show the groups with their quotas and use.

    QUOTA is what the group's own setting is of the pool now; IN_USE counts the whole group, REQUESTED its own
    users' idle and running jobs. MAX_IDLE and MAX_AUTOCLUSTERS are its ceilings. '<none>' are the users
    without a group.

    \b
    Example:
      fetchwork group list
    """
    _show(session, as_json)


@cli.command("import")
@click.option("--dry-run", is_flag=True, help="Print the commands, and set nothing.")
@options.performing
def import_groups(session: AnySession, dry_run: bool) -> None:
    """Set the groups of this host's HTCondor configuration.

    Reads GROUP_NAMES and the settings of its groups as condor_config_val finds them (CONDOR_CONFIG names
    another file). Groups that are not in GROUP_NAMES stay as they are. Settings that this queue can't honour
    are named.

    \b
    Example:
      fetchwork group import --dry-run
      CONDOR_CONFIG=/tmp/pool.conf fetchwork group import
    """
    config = _config()
    names = config.get("group_names", "").replace(",", " ").split()
    if not names:
        raise FetchworkError("the HTCondor configuration has no GROUP_NAMES")
    for name in sorted(names, key=lambda name: (name.count("."), name.lower())):
        changes = _of_config(name, config)
        if dry_run:
            click.echo(f"fetchwork group set {name} " + " ".join(_options(changes)))
        else:
            _set(session, name, changes)
    for setting, (harmless, why) in UNLIKE.items():
        value = config.get(setting.lower(), "")
        if value and value.lower() not in (one.lower() for one in harmless):
            click.echo(f"not honoured: {setting} = {value}: {why}", err=True)
    if not dry_run:
        _show(session, False)


def _set(session: AnySession, name: str, changes: Json) -> None:
    from fetchwork.db.calls import administration

    options.database_of(session).run(administration.set_group(name=name, changes=changes))


def _config() -> dict[str, str]:
    """HTCondor's settings of quotas, with their names in lower case."""
    asked = ["condor_config_val", "-dump", "GROUP_", "NEGOTIATOR_"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, env=os.environ, check=False)
    except FileNotFoundError:
        raise FetchworkError("condor_config_val is not on PATH; allowed: a host with HTCondor") from None
    if done.returncode != 0:
        raise FetchworkError(f"condor_config_val: {' '.join((done.stderr or done.stdout).split())}")
    lines = (line.partition("=") for line in done.stdout.splitlines() if not line.startswith("#"))
    return {name.strip().lower(): value.strip() for name, equals, value in lines if equals}


def _of_config(name: str, config: dict[str, str]) -> Json:
    """The changes that make a group as HTCondor's configuration has it."""
    key = name.lower()

    def flag(setting: str) -> bool:
        return _is_true(config.get(f"{setting}_{key}", config.get(setting, "false")))

    def number(setting: str) -> float | None:
        text = config.get(f"{setting}_{key}")
        try:
            return float(text) if text is not None else None
        except ValueError:
            raise FetchworkError(f"{setting.upper()}_{name} is '{text}'; allowed: a number") from None

    quota, dynamic = number("group_quota"), number("group_quota_dynamic")
    regroups = _is_true(config.get("group_autoregroup", "false")) and flag("group_autoregroup")
    changes: Json = {"accept_surplus": flag("group_accept_surplus"), "autoregroup": regroups}
    if quota is not None:
        changes["quota"] = quota
    else:
        # as the negotiator: a group without a quota has none
        changes.update({"dynamic_quota": dynamic} if dynamic is not None else {"quota": 0.0})
    factor = number("group_prio_factor")
    if factor is not None:
        changes["prio_factor"] = factor
    return changes


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "t", "yes", "1")


def _options(changes: Json) -> list[str]:
    """The changes as options of ``fetchwork group set``."""
    words = [f"--quota {changes['quota']:g}"] if "quota" in changes else []
    words += [f"--share {changes['dynamic_quota']:g}"] if "dynamic_quota" in changes else []
    words += ["--accept-surplus" if changes["accept_surplus"] else "--no-surplus"]
    words += ["--autoregroup"] if changes["autoregroup"] else []
    return words + ([f"--factor {changes['prio_factor']:g}"] if "prio_factor" in changes else [])


def _show(session: AnySession, as_json: bool, name: str | None = None) -> None:
    groups = [
        ad
        for ad in session.items("view", name="groups")
        if name is None or ad["Name"].lower() == name.lower()
    ]
    if as_json:
        output.print_json(groups)
        return
    lines = [
        [
            ad["Name"],
            output.number(ad.get("ConfigQuota")),
            output.number(ad.get("DynamicQuota"), 3),
            "yes" if ad["AcceptSurplus"] else "",
            "yes" if ad["AutoRegroup"] else "",
            output.number(ad["SubtreeQuota"]),
            output.number(ad["SubtreeInUse"]),
            output.number(ad["Requested"]),
            ad.get("MaxIdle"),
            ad.get("MaxAutoclusters"),
        ]
        for ad in groups
    ]
    heading = (
        *("GROUP", "SET", "SHARE", "SURPLUS", "AUTOREGROUP", "QUOTA", "IN_USE", "REQUESTED", "MAX_IDLE"),
        "MAX_AUTOCLUSTERS",
    )
    output.table(heading, lines, right=(1, 2, 5, 6, 7, 8, 9))
