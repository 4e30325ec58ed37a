"""``fetchwork hook NAME``: the hooks' work in a process of its own, told by the hook's environment."""

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fetchwork.config import load
from fetchwork.config.write import to_toml
from fetchwork.db.database import Database
from fetchwork.handlers.keywords import make_starter_logs
from fetchwork.hook.spool import Spool, write_report
from fetchwork.hook.wire import Request
from tests.agent.conftest import JobOf, Rows, Submit, attributes_of, slot_ad, with_attributes
from tests.by_name import call
from tests.unit.test_starterend import BEGUN, EXITED
from tests.waiting import PATIENCE_S, until

UPDATE: dict[str, Any] = {"JobState": "Running"}


class DirectHook:
    """Runs hooks in direct mode, on a host file of its own: hook(name, body, arg, ...)."""

    def __init__(self, directory: Path, conninfo: str) -> None:
        self.file = directory / "host.toml"
        self.spool = directory / "spool"
        Spool(str(self.spool)).make()
        self.use_database(conninfo)

    def use_database(self, conninfo: str) -> None:
        self.file.write_text(
            to_toml(
                {
                    "host": {"name": "vm"},
                    "database": {"main": {"conninfo": conninfo}},
                    "agent": {"run": "none", "user": "", "spool": str(self.spool)},
                    "keyword": {"FW": {}},
                }
            )
        )

    def __call__(
        self,
        name: str,
        body: bytes = b"",
        *args: str,
        check: str = "",
        slot: str = "slot1",
        deadline_ms: int = int(1000 * PATIENCE_S),
        config: Path | None = None,
        below: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        told = {
            "FETCHWORK_DIRECT_CONFIG": str(config or self.file),
            "FETCHWORK_KEYWORD": "FW",
            "FETCHWORK_SLOT": slot,
            "FETCHWORK_DEADLINE_MS": str(deadline_ms),
            "FETCHWORK_CHECK": check,
        }
        return subprocess.run(
            [*([below] if below else []), sys.executable, "-m", "fetchwork", "hook", name, *args],
            input=body,
            env={**os.environ, **told},
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture
def hook(conninfo: str, tmp_path: Path) -> DirectHook:
    return DirectHook(tmp_path, conninfo)


def fetched(hook: DirectHook) -> bytes:
    done = hook("fetch_work", slot_ad())
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_job_runs_from_fetch_to_exit(hook: DirectHook, submit: Submit, job_of: JobOf) -> None:
    job = submit(owner="nobody")
    ad = fetched(hook)
    hook("reply_fetch", ad + b"-----\n" + slot_ad(), "accept")
    assert hook("update_job_info", ad).returncode == 0
    assert hook("prepare_job", ad).returncode == 0
    # asked twice by the same starter, which is this process
    assert hook("prepare_job", ad).returncode == 0
    assert job_of(job)["jobstatus"] == 2
    end = with_attributes(ad, ExitCode=3, ExitBySignal=False, JobPid=1, JobState="Exited")
    assert hook("job_exit", end, "exit").returncode == 0
    assert (job_of(job)["jobstatus"], job_of(job)["exitcode"]) == (4, 3)


def test_starter_is_known_above_a_program_of_the_site_s_that_runs_the_hook(
    hook: DirectHook, submit: Submit, database: Database, tmp_path: Path
) -> None:
    submit()
    ad = fetched(hook)
    starter, number = tmp_path / "condor_starter", tmp_path / "pid"
    starter.write_text(f"""#!/bin/sh\necho $$ > {number}\nsh -c '"$@"; true' sh "$@"\ntrue\n""")
    starter.chmod(0o755)
    assert hook("prepare_job", ad, below=starter).returncode == 0
    (run,) = database.query("SELECT state, starter FROM fetchwork.run")
    assert (run["state"], run["starter"].partition(":")[0]) == ("running", number.read_text().strip())


def test_no_work_prints_nothing(hook: DirectHook) -> None:
    done = hook("fetch_work", slot_ad())
    assert (done.stdout, done.stderr, done.returncode) == (b"", b"", 0)


def test_slot_is_told_of_and_not_more_often_than_need_be(
    hook: DirectHook, submit: Submit, database: Database
) -> None:
    def told() -> Rows:
        return database.query("SELECT name, state, cpus, last_answer, last_fetch_at, ad FROM fetchwork.slots")

    hook("fetch_work", slot_ad(Name="slot1@vm"))
    (first,) = told()
    assert (first["name"], first["state"], first["last_answer"]) == ("slot1@vm", "Unclaimed", "nothing")
    assert first["cpus"] == first["ad"]["Cpus"]
    hook("fetch_work", slot_ad(Name="slot1@vm"))
    assert told() == [first]
    database.query("UPDATE fetchwork.slot SET last_fetch_at = last_fetch_at - interval '61 s'")
    hook("fetch_work", slot_ad(Name="slot1@vm"))
    assert told()[0]["last_fetch_at"] > first["last_fetch_at"]
    job = submit()
    hook("fetch_work", slot_ad(Name="slot1@vm"))
    assert told()[0]["last_answer"] == f"offered {job}"


def test_removed_job_is_signalled_by_the_hook_itself(
    hook: DirectHook, submit: Submit, database: Database
) -> None:
    job = submit()
    ad = fetched(hook)
    hook("prepare_job", ad)
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        try:
            update = with_attributes(ad, **UPDATE, JobPid=process.pid)
            assert hook("update_job_info", update).returncode == 0
            assert process.poll() is None
            call(database, "remove", jobs=[job])
            assert hook("update_job_info", update).returncode == 0
            assert process.wait(PATIENCE_S) == -15
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


@pytest.mark.parametrize(
    "state",
    [
        "insufficient_privilege",
        *(pytest.param(state, marks=pytest.mark.all) for state in ("undefined_function", "internal_error")),
    ],
)
def test_result_that_the_database_can_t_take_yet_is_kept_until_it_can(
    hook: DirectHook, submit: Submit, database: Database, job_of: JobOf, tmp_path: Path, state: str
) -> None:
    job = submit()
    ad = fetched(hook)
    hook("prepare_job", ad)
    end = with_attributes(ad, ExitCode=3, ExitBySignal=False, JobPid=1, JobState="Exited")
    cures = [
        database.query("SELECT pg_get_functiondef(%s::regproc) AS sql", [f"fetchwork.{name}"])[0]["sql"]
        for name in ("report_runs", "finish")
    ]
    # as PostgreSQL would where a grant is missing, or an upgrade not done
    for cure in cures:
        database.script(f"{cure.partition('AS $')[0]} AS $f$ BEGIN RAISE {state}; END $f$".encode())
    assert hook("job_exit", end, "exit").returncode == 75  # the hook spools it
    write_report(str(tmp_path / "spool"), Request("job_exit", end, keyword="FW", arg="exit", slot="slot1"))
    busy = slot_ad("25.14.1-fetch_work-static-claimed-busy")
    hook("fetch_work", busy)
    assert job_of(job)["jobstatus"] == 2
    for cure in cures:
        database.script(cure.encode())
    hook("fetch_work", busy)
    assert (job_of(job)["jobstatus"], job_of(job)["exitcode"]) == (4, 3)


def test_failed_check_keeps_the_job_from_starting(hook: DirectHook, submit: Submit, job_of: JobOf) -> None:
    job = submit()
    problem = "Failed to execute '/x': (errno=2: 'No such file or directory')"
    done = hook("prepare_job", fetched(hook), check=problem)
    assert done.returncode == 1
    told = attributes_of(done.stdout)
    assert told["HookStatusCode"] == 350
    assert problem in told["HookStatusMessage"]
    assert (job_of(job)["jobstatus"], job_of(job)["holdreasoncode"], job_of(job)["holdreasonsubcode"]) == (
        5,
        6,
        2,
    )


def test_slot_that_asks_again_ends_what_it_had(hook: DirectHook, submit: Submit, job_of: JobOf) -> None:
    job = submit()
    hook("prepare_job", fetched(hook))
    fetched(hook)
    assert job_of(job)["numlost"] == 1


def test_fetch_does_what_no_agent_is_there_to_do(
    hook: DirectHook, submit: Submit, database: Database, job_of: JobOf
) -> None:
    job = submit(ad={"PeriodicRemove": "/Expr(JobPrio == 0)/"})
    hook("fetch_work", slot_ad("25.14.1-fetch_work-static-claimed-busy"))
    assert job_of(job)["jobstatus"] == 3
    assert database.query("SELECT 1 FROM fetchwork.heartbeat WHERE reaped_at > now() - interval '1 minute'")


@pytest.mark.parametrize("name", ["fetch_work", "reply_fetch", "prepare_job", "update_job_info", "job_exit"])
def test_without_a_database_each_hook_fails_as_htcondor_has_to_read_it(hook: DirectHook, name: str) -> None:
    hook.use_database("host=127.0.0.1 port=1 dbname=x password=hunter2")
    ad = b'FetchWorkRunId = 1\nFetchWorkToken = "edc2d9bf-cff4-4e01-a708-e7f96af06707"\n'
    body = {"fetch_work": slot_ad(), "reply_fetch": ad + b"-----\n" + slot_ad()}.get(name, ad)
    args = {"reply_fetch": ["accept"], "job_exit": ["exit"]}.get(name, [])
    done = hook(name, body, *args, deadline_ms=3000)
    # 75: the hook that waits for JOB_EXIT keeps the report in the spool
    assert done.returncode == {"fetch_work": 0, "job_exit": 75}.get(name, 1)
    assert done.stderr.count(b"\n") == 1
    assert b"hunter2" not in done.stderr
    assert b"edc2d9bf" not in done.stderr
    if name == "prepare_job":
        assert attributes_of(done.stdout)["HookStatusCode"] == 350
    else:
        assert done.stdout == b""


def test_what_is_no_ad_gets_one_clear_line(hook: DirectHook) -> None:
    done = hook("job_exit", b"nonsense\n", "exit")
    assert done.returncode == 1
    assert done.stderr == (
        b"fetchwork job_exit: the job ad has no FetchWorkRunId and FetchWorkToken: not a job of fetchwork\n"
    )


def test_missing_host_file_is_one_line(hook: DirectHook, tmp_path: Path) -> None:
    done = hook("fetch_work", slot_ad(), config=tmp_path / "none.toml")
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"cannot be read" in done.stderr


def written_before(hook: DirectHook, database: Database, text: str) -> Path:
    """What the starter of a started job, which is gone, wrote: an agent had offered the job, with a file."""
    ad = fetched(hook)
    known = attributes_of(ad)
    assert hook("prepare_job", ad).returncode == 0
    logs = make_starter_logs(load(hook.file))
    path = asyncio.run(logs.make(known["FetchWorkRunId"], known["FetchWorkToken"], None, tells_end=True))
    assert path is not None
    Path(path).write_text(text)
    database.query("UPDATE fetchwork.run SET starter = '1:1'")
    return Path(path)


def test_end_without_job_exit_counts_before_the_slot_gets_another_job(
    hook: DirectHook, conninfo: str, submit: Submit, job_of: JobOf, database: Database
) -> None:
    job = submit()
    written_before(hook, database, BEGUN + EXITED)
    assert hook("fetch_work", slot_ad()).stdout == b""
    assert (job_of(job)["jobstatus"], job_of(job)["exitcode"]) == (4, 3)


@pytest.mark.parametrize("text", [BEGUN + EXITED, BEGUN])
def test_what_a_starter_wrote_goes_with_its_run(
    hook: DirectHook, submit: Submit, job_of: JobOf, database: Database, text: str
) -> None:
    job = submit()
    written = written_before(hook, database, text)
    hook("fetch_work", slot_ad())
    assert job_of(job)["jobstatus"] != 2
    until(lambda: not written.exists())
