"""Bugs that are planted to test the checker: each a change of the text of a SQL function or of the agent.

A change whose text no longer occurs in its file fails, so that no planted bug disappears unnoticed.
"""

from dataclasses import dataclass
from pathlib import Path

import psycopg

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: ``old`` in a file becomes ``new``. Files of the agent need a history of a pool to show it."""

    name: str
    file: str
    old: str
    new: str

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
        """The program text that puts a bug into an agent before it begins."""
        module = self.file.removesuffix(".py").replace("/", ".")
        return (
            f"import {module} as planted\n"
            f"exec(compile({self.text()!r}, planted.__file__, 'exec'), planted.__dict__)\n"
        )


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
        "held jobs are not counted",
        "sql/functions/jobs/hold_jobs.sql",
        "SELECT h.autocluster_id, h.batch_id, count(*)",
        "SELECT h.autocluster_id, h.batch_id, 0",
    ),
    Planted(
        "a key is used twice",
        "sql/functions/jobs/note_submission.sql",
        "IF NOT FOUND THEN",
        "IF false THEN",
    ),
    Planted(
        "an edit of a running job is lost",
        "sql/functions/jobs/edit.sql",
        "WHERE j.cluster_id = named.cluster_id AND j.proc_id = named.proc_id;\n"
        "    END LOOP;\n\n    -- check one job",
        "WHERE j.cluster_id = named.cluster_id AND j.proc_id = named.proc_id AND j.job_status <> 2;\n"
        "    END LOOP;\n\n    -- check one job",
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
        "a lost run's report counts although the job runs again",
        "sql/functions/runs/finish_late.sql",
        "IF ended.outcome <> 'lost' OR NOT exited",
        "IF NOT exited",
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
        "fetchwork/handlers/host/session.py",
        "hosts.slot_is_free(host_id=greeting.host_id, slot=slot)",
        "hosts.slot_is_free(host_id=greeting.host_id, slot=slot.replace('slot2', 'slot1'))",
    ),
)
