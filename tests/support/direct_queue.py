"""The SQL functions as the tests call them: one method each, with defaults for rarely used arguments."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.support.invariants import violations

AGENT_ID = "00000000-0000-4000-8000-000000000000"
EXITED: dict[str, Any] = {"JobState": "Exited", "JobPid": 77, "JobDuration": 5.0, "ExitBySignal": False}


class Claimed(NamedTuple):
    """A run as ``claim`` returns it."""

    run_id: int
    token: Any
    job: str
    position: int
    ad: dict[str, Any]
    autocluster_id: int


class DirectQueue:
    """A connection, and the functions of the schema on it."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._others: list[psycopg.Connection] = []

    def another(self, *, autocommit: bool = True) -> "DirectQueue":
        """A further session with the same queue, for races; in autocommit unless asked otherwise."""
        info = self.connection.info
        opened = psycopg.connect(
            info.dsn, password=info.password, autocommit=autocommit, prepare_threshold=None
        )
        self._others.append(opened)
        return DirectQueue(opened)

    def close_others(self) -> None:
        """Close the further sessions, and roll back what they have not committed."""
        for connection in self._others:
            connection.close()

    def call(self, function: str, **arguments: Any) -> list[dict[str, Any]]:
        """All rows of ``fetchwork.FUNCTION(name => value, ...)``."""
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in arguments
        )
        statement = sql.SQL("SELECT * FROM fetchwork.{}({})").format(sql.Identifier(function), named)
        values = {
            name: Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()
        }
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement, values).fetchall()

    def scalar(self, function: str, **arguments: Any) -> Any:
        """The single value of the single row."""
        (row,) = self.call(function, **arguments)
        (value,) = row.values()
        return value

    def value(self, statement: str, *parameters: Any) -> Any:
        """The first value of the first row of any statement, None without a row."""
        row = self.connection.execute(statement, parameters).fetchone()
        return row[0] if row else None

    def tuples_read(self, table: str) -> int:
        """The rows of a table that this transaction has read so far."""
        counts = " + ".join(
            f"pg_stat_get_xact_tuples_{how}('fetchwork.{table}'::regclass)" for how in ("returned", "fetched")
        )
        return int(self.value(f"SELECT {counts}"))

    def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of any statement."""
        return self.connection.execute(statement, parameters).fetchall()

    # ---- people

    def submit(self, ad: dict[str, Any] | None = None, **attributes: Any) -> str:
        """Submit one job; by default /bin/true of alice."""
        return self.submit_many([{**(ad or {}), **attributes}])[0]

    def submit_many(self, ads: list[dict[str, Any]], common: dict[str, Any] | None = None) -> list[str]:
        """Submit a cluster; return its jobs' ids."""
        common = {"Cmd": "/bin/true", "Owner": "alice"} if common is None else common
        rows = self.connection.execute(
            "SELECT job_id FROM fetchwork.submit_many(%s::jsonb[], %s)",
            [list(map(json.dumps, ads)), Jsonb(common)],
        )
        return [row[0] for row in rows]

    def act(self, function: str, *jobs: str, **arguments: Any) -> int:
        """hold, release, remove, vacate, edit of named jobs."""
        return int(self.scalar(function, jobs=list(jobs), **arguments))

    def status(self, job: str) -> int | None:
        """The JobStatus of a job in the queue or in history."""
        return self.value(
            "SELECT JobStatus FROM fetchwork.jobs WHERE JobId = %s UNION ALL SELECT JobStatus FROM fetchwork.history WHERE JobId = %s",
            job,
            job,
        )

    def column(self, column: str, job: str) -> Any:
        """A column of the job's row in the table of queued jobs."""
        return self.value(
            f"SELECT j.{column} FROM fetchwork.job AS j WHERE fetchwork.job_id(j.cluster_id, j.proc_id) = %s",
            job,
        )

    def events(self, job: str) -> list[int]:
        """HTCondor's event numbers, in order."""
        return [
            row[0]
            for row in self.rows(
                "SELECT EventTypeNumber FROM fetchwork.events WHERE fetchwork.job_id(ClusterId, ProcId) = %s ORDER BY EventId",
                job,
            )
        ]

    def outcome(self, run: Claimed) -> str | None:
        """The outcome of the run, None while it lives."""
        return self.value("SELECT outcome::text FROM fetchwork.run_history WHERE run_id = %s", run.run_id)

    # ---- hosts

    def host(self, name: str = "h1") -> int:
        """The host's id, after its agent has said hello."""
        greeting = self.call("hello", host=name, agent_version="1", agent_id=AGENT_ID, signals_jobs=True)
        return int(greeting[0]["host_id"])

    def beat(self, host_id: int, *alive: Claimed, **arguments: Any) -> list[dict[str, Any]]:
        """The agent's answer about its runs."""
        return self.call(
            "beat",
            host_id=host_id,
            alive=[run.run_id for run in alive],
            tokens=[run.token for run in alive],
            **{"agent_id": AGENT_ID, **arguments},
        )

    def candidates(self, host_id: int, slot: str = "slot1@h1", **arguments: Any) -> list[dict[str, Any]]:
        """The autoclusters that could run there."""
        return self.call("candidates", host_id=host_id, slot=slot, **{"queues": ["default"], **arguments})

    def claim_many(self, host_id: int, *slots: str) -> list[dict[str, Any]]:
        """The runs of these slots of a host when its agent asks for all that waits, the oldest kind first."""
        wanted = self.rows("SELECT DISTINCT autocluster_id, job_prio FROM fetchwork.waiting ORDER BY 1, 2")
        of_each = {"exclusive": True, "weights": 1, "choices": list(range(1, len(wanted) + 1))}
        return self.call(
            "claim_many",
            host_id=host_id,
            autoclusters=[autocluster for autocluster, _ in wanted],
            prios=[prio for _, prio in wanted],
            hints=[0] * len(wanted),
            slots=Jsonb([{"slot": slot, **of_each} for slot in slots]),
        )

    def next_runs(
        self,
        host_id: int,
        ended: Mapping[str, Claimed | None],
        *,
        report: Mapping[str, Any] | None = None,
        compared: Sequence[str] = (),
        same: Mapping[str, Any] | None = None,
        weights: float | str = 1,
    ) -> list[dict[str, Any]]:
        """The next runs of slots with chains, by all that waits, the oldest kind first; in the slots' order.

        ``ended`` has each slot's run that has ended, None without one.
        """
        wanted = self.rows("SELECT DISTINCT autocluster_id, job_prio FROM fetchwork.waiting ORDER BY 1, 2")
        runs = [run for run in ended.values() if run is not None]
        of_each = {
            "exclusive": True,
            "weights": weights,
            "choices": list(range(1, len(wanted) + 1)),
            "chain": 7,
        }
        slots = [
            {
                "slot": slot,
                "end": None if run is None else runs.index(run) + 1,
                "starter": f"{n}:1",
                "same": same or {},
                **of_each,
            }
            for n, (slot, run) in enumerate(ended.items())
        ]
        rows = self.connection.execute(
            "SELECT to_jsonb(n) FROM fetchwork.next_runs(%s, %s::bigint[], %s::uuid[], %s::jsonb[], %s::integer[],"
            " %s::integer[], %s::bigint[], %s, %s::text[]) AS n ORDER BY n.slot_number",
            [
                host_id,
                [run.run_id for run in runs],
                [str(run.token) for run in runs],
                [json.dumps(report or {**EXITED, "ExitCode": 0})] * len(runs),
                [autocluster for autocluster, _ in wanted],
                [prio for _, prio in wanted],
                [0] * len(wanted),
                Jsonb(slots),
                list(compared),
            ],
        )
        answers = [row[0] for row in rows]
        return [{**one, "token": one["token"] and UUID(one["token"])} for one in answers]

    def claim(
        self,
        slot: str = "slot1@h1",
        *,
        host_id: int | None = None,
        hint: int = 0,
        weight: float | str = 1,
        exclusive: bool = True,
        wanted: Sequence[tuple[int, int]] | None = None,
        **arguments: Any,
    ) -> Claimed | None:
        """Claim from the first (autocluster, JobPrio) of ``wanted`` that yields a job.

        Without ``wanted``, from the candidates: the highest priority, then the oldest autocluster.
        ``candidates`` has no order of its own; the caller of a claim brings the order.
        """
        host_id = host_id or self.host(slot.partition("@")[2])
        if wanted is None:
            kinds = ((kind["autocluster_id"], kind["job_prio"]) for kind in self.candidates(host_id, slot))
            wanted = sorted(kinds, key=lambda kind: (-kind[1], kind[0]))
        choices = list(range(1, len(wanted) + 1))
        rows = self.call(
            "claim_many",
            host_id=host_id,
            autoclusters=[autocluster for autocluster, _ in wanted],
            prios=[prio for _, prio in wanted],
            hints=[hint] * len(wanted),
            slots=Jsonb([{"slot": slot, "exclusive": exclusive, "choices": choices, "weights": weight}]),
            **arguments,
        )
        row = next((row for row in rows if row["slot_number"] is not None), None)
        if row is None:
            return None
        assert row["problem"] is None, row["problem"]
        job = f"{row['cluster_id']}.{row['proc_id']}"
        autocluster, _ = wanted[row["choice"] - 1]
        return Claimed(row["run_id"], row["token"], job, row["position"], row["ad"], autocluster)

    def of(self, run: Claimed, function: str, **arguments: Any) -> Any:
        """A function of a run: accept, reject, start, finish, ..."""
        return self.scalar(function, run_id=run.run_id, token=run.token, **arguments)

    def start(self, run: Claimed, starter: str | None = "10:1", **arguments: Any) -> str | None:
        """The fence's answer, None for go."""
        return self.of(run, "start", starter=starter, **arguments)

    def copy_identity(self) -> None:
        """Each host joined by one invitation, and its identity was found on two machines."""
        self.connection.execute(
            "INSERT INTO fetchwork.invitation (number, role, hosts, uses, trusted, ephemeral, valid_until,"
            " invited_by) VALUES (1, 'invited', '*', 9, false, false, now(), 'postgres')"
        )
        self.connection.execute(
            "INSERT INTO fetchwork.host_identity (host_id, role, invitation, verifier, valid_until, copied_at)"
            " SELECT host_id, 'role ' || host_id, 1, '', 'infinity', now() FROM fetchwork.host"
        )

    def started(self, slot: str = "slot1@h1", **arguments: Any) -> Claimed:
        """A run that passed the fence."""
        run = self.claim(slot, **arguments)
        assert run is not None
        self.of(run, "accept")
        assert self.start(run) is None
        return run

    def heartbeat(self, run: Claimed, **report: Any) -> dict[str, Any]:
        """The answer to an update of a job that runs."""
        report = {"JobState": "Running", "JobPid": 77, **report}
        return self.call("heartbeat", run_id=run.run_id, token=run.token, report=report)[0]

    def finish(
        self, run: Claimed, hook_reason: str = "exit", verdict: dict[str, Any] | None = None, **report: Any
    ) -> str:
        """Report the end of the run; exit code 0 by default."""
        if not report:
            report = {**EXITED, "ExitCode": 0}
        return self.of(run, "finish", hook_reason=hook_reason, report=report, verdict=verdict)

    # ---- time and truth

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """One transaction, whose statements time out after so many seconds."""
        with self.connection.transaction():
            self.connection.execute(f"SET LOCAL statement_timeout = {seconds * 1000:.0f}")
            yield

    def set(self, name: str, value: float) -> None:
        """Change a setting."""
        self.connection.execute("SELECT fetchwork.set_setting(%s, %s::numeric)", [name, value])

    def pass_time(self, seconds: float) -> None:
        """Move all times that the database waits for into the past by so many seconds."""
        for table, columns in {
            "run": ("deadline", "claimed_at", "accepted_at", "started_at", "contact_at", "signalled_at"),
            "host": (
                "lease_until",
                "seen_at",
                "next_probe_at",
                "newcomer_probe_at",
                "bad_since",
                "black_hole_since",
            ),
            "failing_owner": ("last_bad_at", "rest_until", "blamed_until"),
            "job": ("not_before",),
            "slot_rest": ("rest_until",),
            "start_token": ("at",),
        }.items():
            moved = ", ".join(f"{column} = {column} - make_interval(secs => {seconds})" for column in columns)
            self.connection.execute(f"UPDATE fetchwork.{table} SET {moved}")

    def reap(self) -> int:
        """Reap as the leading agent does, whose last call was a moment ago."""
        self.connection.execute("UPDATE fetchwork.heartbeat SET reaped_at = clock_timestamp()")
        return int(self.scalar("reap"))

    def check(self) -> None:
        """Fail if an invariant is violated."""
        assert violations(self.connection) == []
