"""``fetchwork db``: make, upgrade and maintain the database."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from fetchwork.cli import options, output
from fetchwork.cli.credentialkey import credential_key


@click.group()
@click.option("--dsn", metavar="CONNINFO", help="The database; as fetchwork --dsn.")
@click.pass_context
def cli(context: click.Context, dsn: str | None) -> None:
    """Make, upgrade and maintain the database.

    \b
    Example:
      createdb jobs
      fetchwork --dsn dbname=jobs db init
      fetchwork --dsn dbname=jobs db status
    """
    context.obj = options.conninfo_of(context, dsn)


@cli.command()
@click.option(
    "--agent-role",
    metavar="ROLE",
    help="Also make a role that the agents of hosts log in as; its password is generated and printed.",
)
@click.option(
    "--access-point-role", metavar="ROLE", help="As --agent-role, for the access points of submit hosts."
)
@options.json_option
@click.pass_obj
def init(conninfo: str, agent_role: str | None, access_point_role: str | None, as_json: bool) -> None:
    """Make the schema in a database that has none.

    This needs the right to create a schema, and to create roles if fetchwork's five roles do not exist. In a
    database that has the schema it does the same as upgrade.

    \b
    Example:
      fetchwork db init --agent-role fetchwork_host
    """
    from fetchwork.db import schema

    _applied(schema.init(conninfo), as_json)
    for role, member_of in ((agent_role, "fetchwork_agent"), (access_point_role, "fetchwork_access_point")):
        if role is not None:
            password = _make_role(conninfo, role, member_of)
            click.echo(f"role {role}, password {password}", err=as_json)


def _make_role(conninfo: str, role: str, member_of: str) -> str:
    """Make a login role that is a member of one of fetchwork's, and return its password."""
    from fetchwork.db.database import Database

    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", role):
        raise click.UsageError(f"'{role}' is not a name for a role; allowed: small letters, digits and '_'")
    password = secrets.token_urlsafe(24)
    with Database(conninfo) as database:
        database.query(f'CREATE ROLE "{role}" LOGIN PASSWORD %s IN ROLE {member_of}', [password])
    return password


@cli.command()
@click.option("--plan", "planned", is_flag=True, help="Print what it would do, and how long it would lock.")
@options.json_option
@click.pass_obj
def upgrade(conninfo: str, planned: bool, as_json: bool) -> None:
    """Bring the schema to the version that this fetchwork speaks.

    Older agents keep working; upgrade the database first, then the hosts. With --plan the upgrade is done and
    undone: it locks as long as the upgrade will.

    \b
    Example:
      fetchwork db upgrade --plan
      fetchwork db upgrade
    """
    from fetchwork.db import rehearsal, schema

    if not planned:
        _applied(schema.upgrade(conninfo), as_json)
        return
    plan = rehearsal.plan(conninfo)
    if as_json:
        output.print_json(asdict(plan))
        return
    click.echo(f"migrations: {', '.join(map(str, plan.migrations)) or 'none'}")
    words = {"missing": "new", "more": "gone", "changed": "changed"}
    for change in plan.changes:
        click.echo(f"{words[change.how]:<8} {change.type} {change.name}")
    locked = [*plan.locked_tables, *([f"{len(plan.locked_views)} views"] if plan.locked_views else [])]
    click.echo(f"locks for {plan.seconds:.1f} s: {', '.join(locked) or 'nothing'}")


@cli.command()
@options.json_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Compare every object of the schema with those that this fetchwork makes; exit status 1 if one differs.

    The schema is made anew beside the one in use, in a transaction that is undone, so jobs go on. It needs
    the role that owns the schema.

    \b
    Example:
      fetchwork db check
    """
    from fetchwork.db import rehearsal

    found = rehearsal.check(context.obj)
    if as_json:
        output.print_json([asdict(one) for one in found])
    else:
        for one in found:
            click.echo(f"{one.how:<8} {one.type} {one.name}")
        click.echo(
            "`fetchwork db upgrade` makes functions, views and rights anew, but no other object"
            if found
            else "the schema is as this fetchwork makes it"
        )
    if found:
        context.exit(1)


@cli.command()
@options.json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Compare the schema with the one that this fetchwork speaks; exit status 1 if they differ.

    \b
    Example:
      fetchwork db status
    """
    from fetchwork.db import schema
    from fetchwork.db.server import location

    state = schema.status(context.obj)
    if not as_json:
        click.echo(f"{location(context.obj)}: ", nl=False)
    if as_json:
        output.print_json(
            {
                "installed": list(state.installed),
                "known": list(state.known),
                "pending": list(state.pending),
                "newer": state.newer,
            }
        )
    elif not state.installed:
        click.echo("no schema 'fetchwork' in this database: run `fetchwork db init`")
    elif state.problem is not None:
        click.echo(state.problem)
    elif state.pending:
        click.echo(
            f"schema version {max(state.installed)}; to do: {', '.join(map(str, state.pending))}; run"
            " `fetchwork db upgrade`"
        )
    else:
        click.echo(f"schema version {max(state.installed)}: up to date")
    if state.pending or state.newer:
        context.exit(1)
    if state.installed and not as_json:
        for line in _move(context.obj):
            click.echo(line)


def _move(conninfo: str) -> Iterator[str]:
    """Yield lines on the hosts that claims wait for after a move to another server."""
    from fetchwork.db import server

    waits = server.unsettled(conninfo)
    if waits:
        yield (
            f"moved to another server or was restored, noticed at {waits[0].moved_at:%Y-%m-%d %H:%M:%S}: no"
            " job is offered before these have said what they run, or have ended it:"
        )
    for one in waits:
        yield f"  {one.machine or 'hosts that it does not know'}, until {one.until_at:%H:%M:%S}"


@cli.command()
@click.pass_obj
def resume(conninfo: str) -> None:
    """Offer jobs again after a move to another server, at once.

    After a standby has taken over, or a backup was restored, no job is offered before each host has reported
    its running jobs, because the last transactions may be lost, and a job could run twice. This ends the
    wait; use it if none was lost.

    \b
    Example:
      fetchwork db resume
    """
    from fetchwork.db.calls import maintenance
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        waited = database.run(maintenance.resume_offers())
    click.echo("jobs are offered again" if waited else "nothing to do: jobs are offered")


@cli.command()
def sql() -> None:
    """Print where the SQL files are, for applying them with psql.

    \b
    Example:
      psql -1 -v ON_ERROR_STOP=1 -f "$(fetchwork db sql)/install.sql"
    """
    from fetchwork.db import schema

    click.echo(Path(schema.sql_directory()))


@cli.command()
@click.pass_obj
def maintain(conninfo: str) -> None:
    """Run the maintenance that agents run every second and every hour.

    It gives up runs of silent hosts, wakes delayed jobs, adds up counters, makes partitions for the next
    days, and drops expired ones.

    \b
    Example:
      fetchwork db maintain
    """
    from fetchwork.db.calls import maintenance
    from fetchwork.db.database import Database

    with Database(conninfo) as database:
        database.run(maintenance.maintain_queue())
        database.run(maintenance.maintain_tables())


@cli.command()
@click.argument("role")
@click.argument("owners", metavar="OWNER...", nargs=-1)
@click.option(
    "--accounting-group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="Let the role charge its jobs to this accounting group, and to GROUP.OWNER.",
)
@click.option("--revoke", is_flag=True, help="Revoke the right instead.")
@click.pass_obj
def grant(conninfo: str, role: str, owners: tuple[str, ...], groups: tuple[str, ...], revoke: bool) -> None:
    """Let a database role submit jobs that run as OWNER, an account on the execute hosts.

    \b
    Example:
      fetchwork db grant alice alice
      fetchwork db grant portal webjobs analysis --accounting-group physics
    """
    from fetchwork.db.calls import administration
    from fetchwork.db.database import Database
    from fetchwork.db.server import may_submit, quoted

    if not owners and not groups:
        raise click.UsageError("nothing to grant; allowed: OWNER..., --accounting-group GROUP")
    with Database(conninfo) as database, database.transaction():
        for owner in owners:
            change = administration.revoke_owner if revoke else administration.grant_owner
            database.run(change(role=role, owner=owner))
        for group in groups:
            of_group = administration.revoke_group if revoke else administration.grant_group
            database.run(of_group(role=role, accounting_group=group))
        lacks = not revoke and not may_submit(database, role)
    may = f"role {role} may {'no longer ' if revoke else ''}"
    if owners:
        click.echo(f"{may}submit jobs of {', '.join(owners)}")
    if groups:
        click.echo(f"{may}charge accounting group {', '.join(groups)}")
    if lacks:
        click.echo(
            f"role {role} is not a member of fetchwork_submitter yet, without which it can't submit:"
            f" GRANT fetchwork_submitter TO {quoted(role)};",
            err=True,
        )


@cli.command()
@click.argument("name", required=False)
@click.argument("value", required=False, type=float)
@options.json_option
@click.pass_obj
def setting(conninfo: str, name: str | None, value: float | None, as_json: bool) -> None:
    """Show the settings that apply to every queue, or change one.

    \b
    Example:
      fetchwork db setting
      fetchwork db setting max_not_started 5
    """
    from fetchwork.db.calls import administration
    from fetchwork.errors import NotFound
    from fetchwork.queue.reading.ads import ads
    from fetchwork.queue.reading.poolviews import SETTINGS
    from fetchwork.queue.session import Session

    with Session(conninfo) as session:
        if name is not None and value is not None:
            session.database.run(administration.set_setting(name=name, value=value))
        settings = [
            ad for ad in session.each(ads(SETTINGS, None, session.memory)) if name in (None, ad["Name"])
        ]
    if not settings:
        raise NotFound(f"setting '{name}' does not exist; `fetchwork db setting` lists them")
    if as_json:
        output.print_json(settings)
        return
    output.table(
        ("NAME", "VALUE", "UNIT", "MEANING"),
        [[ad["Name"], output.number(ad["Value"]), ad.get("Unit"), ad["Meaning"]] for ad in settings],
        right=(1,),
    )


@cli.command()
@click.argument("url", metavar="[URL|none]", required=False)
@click.option("--access-key-id-file", metavar="FILE", help="Has the id of the bucket's key.")
@click.option("--secret-access-key-file", metavar="FILE", help="Has the key's secret.")
@click.option("--region", help="The bucket's region; by default us-east-1.")
@click.option("--above", metavar="MIB", type=int, default=64, show_default=True, help="Of a file.")
@options.json_option
@click.pass_obj
def bucket(
    conninfo: str,
    url: str | None,
    access_key_id_file: str | None,
    secret_access_key_file: str | None,
    region: str | None,
    above: int,
    as_json: bool,
) -> None:
    """Show the buckets of large files, or choose the bucket of new files.

    Store job files larger than --above MiB in the bucket; the database keeps only their names. The server
    signs the URLs with which submitters, hosts and access points reach them. 'none' keeps new files in the
    database; files in a bucket stay there until their jobs are done. The key of a bucket changes by naming
    it again.

    \b
    Example:
      fetchwork db bucket
      fetchwork db bucket s3://files/fetchwork --region eu-central-1 \\
          --access-key-id-file id --secret-access-key-file secret
      fetchwork db bucket https://minio.example:9000/files/fetchwork --above 256 \\
          --access-key-id-file id --secret-access-key-file secret
      fetchwork db bucket none
    """
    from fetchwork.db.calls import administration
    from fetchwork.db.database import Database
    from fetchwork.queue.submitting.inputs import read_key

    with Database(conninfo) as database:
        if url == "none":
            database.run(administration.set_bucket(url=None))
        elif url is not None:
            if access_key_id_file is None or secret_access_key_file is None:
                raise click.UsageError("a bucket needs --access-key-id-file and --secret-access-key-file")
            database.run(
                administration.set_bucket(
                    url=url,
                    access_key_id=read_key(access_key_id_file),
                    secret=read_key(secret_access_key_file),
                    region=region,
                    above=above << 20,
                )
            )
        found = database.run(administration.buckets())
    if as_json:
        output.print_json([{**asdict(one), "bytes": int(one.bytes)} for one in found])
        return
    output.table(
        ("BUCKET", "FILES_ABOVE_MIB", "FILES", "BYTES", "TO_DELETE"),
        [
            [
                one.url,
                str(one.above >> 20) if one.used else "not used",
                *map(str, (one.contents, one.bytes, one.objects_over)),
            ]
            for one in found
        ],
        right=(1, 2, 3, 4),
    )


cli.add_command(credential_key)


def _applied(versions: list[int], as_json: bool) -> None:
    if as_json:
        output.print_json({"applied": versions})
    else:
        numbers = ", ".join(str(version) for version in versions)
        click.echo(
            f"applied migrations {numbers}"
            if versions
            else "nothing to migrate; functions and views are current"
        )
