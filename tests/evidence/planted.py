"""Bugs that are planted to test the checker: each a change of the text of a SQL function or of the agent.

A change whose text no longer occurs in its file fails, so that no planted bug disappears unnoticed.
"""

from dataclasses import dataclass
from pathlib import Path

import psycopg

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: ``old`` in a file becomes ``new``.

    Files of the agent need a history of a pool to show it, some of the database one with a restore.
    """

    name: str
    file: str
    old: str
    new: str
    after_restore: bool = False

    @property
    def of_agent(self) -> bool:
        """The bug is in the agent, not in the database."""
        return self.file.endswith(".py")

    def text(self) -> str:
        """The file with the bug; raises ValueError if the text does not occur in it once."""
        text = (_ROOT / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"planted bug {self.name!r}: {self.file} has its text {text.count(self.old)} times"
            )
        return text.replace(self.old, self.new)

    def plant(self, conninfo: str) -> None:
        """Put a bug of a SQL function into a database."""
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(self.text().encode())

    def prelude(self) -> str:
        """The program text that puts a bug into an agent before it imports anything."""
        return _PRELUDE.format(
            module=self.file.removesuffix(".py").replace("/", "."), text=self.text(), file=self.file
        )


_PRELUDE = """
from importlib.machinery import SourceFileLoader

def planted(self, name, get_code=SourceFileLoader.get_code):
    return compile({text!r}, {file!r}, "exec") if name == {module!r} else get_code(self, name)

SourceFileLoader.get_code = planted
"""

PLANTED = (
    Planted(
        "a held job's offer can still start",
        "sql/functions/runs/end_live_runs.sql",
        "PERFORM fetchwork.close_run(live, 'withdrawn', end_live_runs.reason);",
        "",
    ),
    Planted(
        "the token of a run is not compared",
        "sql/functions/values/proves.sql",
        "    brought = token\n",
        "    true\n",
    ),
    Planted(
        "a lease ends without its clock",
        "sql/functions/maintenance/reap.sql",
        "WHERE r.deadline < clock_timestamp()\n",
        "WHERE r.deadline < clock_timestamp() OR r.contact_at < clock_timestamp() - interval '0.2 s'\n",
    ),
    Planted(
        "a held job stays in the queue",
        "sql/functions/jobs/hold_jobs.sql",
        "PERFORM fetchwork.dequeue_jobs(clusters, procs);",
        "",
    ),
    Planted(
        "a removed job's run goes on",
        "sql/functions/jobs/remove_jobs.sql",
        "PERFORM fetchwork.end_live_runs(clusters, procs, 'remove', remove_jobs.reason);",
        "",
    ),
    Planted(
        "events of open transactions are passed over",
        "sql/functions/maintenance/sequence_events.sql",
        "AND (e.xid >= first_xid OR e.xid = ANY (ran))",
        "AND e.xid >= first_xid",
    ),
    Planted(
        "events are placed behind their readers",
        "sql/functions/maintenance/sequence_events.sql",
        "SET batch = next_batch",
        "SET batch = next_batch - 2 * (e.event_id % 7 = 0)::integer",
    ),
    Planted(
        "events have the order in which their transactions began",
        "sql/functions/maintenance/sequence_events.sql",
        "        SET batch = next_batch\n"
        "        WHERE e.batch IS NULL AND (e.xid >= first_xid OR e.xid = ANY (ran))\n"
        "        RETURNING e.event_id\n"
        "    )\n"
        "    SELECT server || ' ' || pg_current_snapshot(), count(*)\n",
        "        SET batch = e.xid::text::bigint\n"
        "        WHERE e.batch IS NULL AND e.xid < pg_snapshot_xmin(pg_current_snapshot())\n"
        "        RETURNING e.event_id\n"
        "    )\n"
        "    SELECT NULL, count(*)\n",
    ),
    Planted(
        "a restore in place is not noticed",
        "sql/functions/maintenance/server_identity.sql",
        "left(pg_walfile_name(pg_current_wal_lsn()), 8), fetchwork.running_identity()",
        "left(pg_walfile_name(pg_current_wal_lsn()), 8)",
        after_restore=True,
    ),
    Planted(
        "held jobs are not counted",
        "sql/functions/jobs/hold_jobs.sql",
        "SELECT h.autocluster_id, h.batch_id, count(*)",
        "SELECT h.autocluster_id, h.batch_id, 0",
    ),
    Planted(
        "a key is used twice",
        "sql/functions/jobs/note_key.sql",
        "RETURN known;",
        "RETURN note_key.cluster;",
    ),
    Planted(
        "an edit of a running job is lost",
        "sql/functions/jobs/edit.sql",
        "    WHERE j.ctid = ANY (ctids);\n\n    -- check one job",
        "    WHERE j.ctid = ANY (ctids) AND j.job_status <> 2;\n\n    -- check one job",
    ),
    Planted(
        "a released job does not wait",
        "sql/functions/jobs/release_jobs.sql",
        "WHERE r.job_status = 1\n    )",
        "WHERE false\n    )",
    ),
    Planted(
        "an end is acknowledged before it is on disk",
        "sql/functions/runs/finish_runs.sql",
        "BEGIN\n    WITH asked AS (",
        "BEGIN\n    PERFORM set_config('synchronous_commit', 'off', true);\n    WITH asked AS (",
    ),
    Planted(
        "a free slot ends the runs of all slots",
        "sql/functions/runs/slot_is_free.sql",
        "AND r.slot = slot_is_free.slot\n",
        "",
    ),
    Planted(
        "a second starter passes the fence",
        "sql/functions/runs/start.sql",
        "IF live.starter IS NOT DISTINCT FROM start.starter AND live.starter IS NOT NULL THEN",
        "IF true THEN",
    ),
    Planted(
        "an offer never expires",
        "sql/functions/maintenance/reap.sql",
        "PERFORM fetchwork.give_up_offer(live);",
        "NULL;",
    ),
    Planted(
        "the end of a chain's job needs no token",
        "sql/functions/runs/next_runs.sql",
        "fetchwork.finish_runs(end_ids, end_tokens, reports)",
        "fetchwork.finish_runs(\n"
        "            end_ids, ARRAY(SELECT r.token FROM fetchwork.run AS r WHERE r.run_id = ANY (end_ids)),\n"
        "            reports\n"
        "        )",
    ),
    Planted(
        "a chain goes on after an end that is refused",
        "sql/functions/runs/next_runs.sql",
        "WHERE s.slot -> 'end' = 'null' OR (s.slot ->> 'end')::integer = ANY (finished);",
        ";",
    ),
    Planted(
        "a chain goes on with a job that does not fit",
        "sql/functions/runs/next_runs.sql",
        "fetchwork.part_of(taken.ad, compared) <> wish -> 'same'\n",
        "false\n",
    ),
    Planted(
        "the start of a job that does not fit a chain is not undone",
        "sql/functions/runs/next_runs.sql",
        "RAISE EXCEPTION 'a job does not fit the chains' USING ERRCODE = 'FWFIT';",
        "EXIT;",
    ),
    Planted(
        "the claim of a job that does not fit a chain is not undone",
        "sql/functions/runs/next_runs.sql",
        "RAISE EXCEPTION 'the job does not fit the chain' USING ERRCODE = 'FWFIT';",
        "taken.run_id := NULL;",
    ),
    Planted(
        "the agent lets a job start that the fence refused",
        "fetchwork/handlers/host/reports.py",
        "        return await self._alone(runs.start(",
        "        return None and await self._alone(runs.start(",
    ),
    Planted(
        "the agent lets a job start before the database answers",
        "fetchwork/handlers/host/reports.py",
        "        if await self._gathered(waiting):\n            return None\n",
        "        if run_id % 5 == 0 or await self._gathered(waiting):\n            return None\n",
    ),
    Planted(
        "the agent says that another slot is free",
        "fetchwork/agent/runs/watch.py",
        "        if not before:\n            return True\n        if any(run.plain for run in before):\n",
        "        if not before:\n"
        "            await context.session.slot_is_free('slot1@' + slot.partition('@')[2], timeout_s)\n"
        "            return True\n"
        "        if any(run.plain for run in before):\n",
    ),
)
