"""Files travel with jobs, on real slots: what comes into the sandbox, what leaves it, and what is held why.

The cases and expectations are those of HTCondor's own tests of file transfer, written anew for jobs that are
fetched.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from tests.by_name import scalar
from tests.sandboxes import kept_files, submit_with_files
from tests.waiting import until


class FileJobs:
    """Jobs with sandboxes in a pool that the tests of this file share."""

    def __init__(self, pool: PersonalPool, database: Database) -> None:
        self.pool = pool
        self.database = database

    def submit(self, script: str, inputs: dict[str, bytes | str | None] | None = None, **ad: Any) -> str:
        return submit_with_files(self.pool.conninfo, inputs or {}, script=f"#!/bin/sh\n{script}\n", **ad)

    def row(self, sql: str, *params: Any) -> dict[str, Any] | None:
        rows = self.database.query(sql, params)
        return rows[0] if rows else None

    def completed(self, job: str) -> dict[str, Any]:
        return self._until(job, "SELECT * FROM fetchwork.history WHERE jobid = %s AND jobstatus = 4")

    def held(self, job: str) -> dict[str, Any]:
        return self._until(job, "SELECT * FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 5")

    def _until(self, job: str, sql: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = self.database.query(sql, [job])
            return bool(found)

        try:
            until(there, f"job {job}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.about(job)}") from None
        return found[0]

    def about(self, job: str) -> object:
        return (
            self.database.query(
                "SELECT jobstatus, holdreason, lastreason FROM fetchwork.jobs WHERE jobid = %s", [job]
            ),
            self.database.query("SELECT jobstatus FROM fetchwork.history WHERE jobid = %s", [job]),
            self.database.query("SELECT state, outcome, reason FROM fetchwork.runs WHERE jobid = %s", [job]),
        )

    def outputs(self, job: str) -> dict[str, bytes | str | None]:
        return {name: value for name, (_, value) in kept_files(self.pool.conninfo, job).items()}


@pytest.fixture(scope="session")
def file_pool(suite: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A host that shares nothing."""
    return make_pool(config="STARTER_UPDATE_INTERVAL = 2\n", host={"files": {"shared": []}})


@pytest.fixture
def jobs(file_pool: PersonalPool) -> Iterator[FileJobs]:
    with Database(file_pool.conninfo) as database:
        quick = {"max_not_started": 2, "retry_delay": 0.1, "max_retry_delay": 0.5, "black_hole_runs": 1000}
        for name, value in quick.items():
            scalar(database, "set_setting", name=name, value=value)
        yield FileJobs(file_pool, database)
        database.query("SELECT fetchwork.remove(array_agg(jobid)) FROM fetchwork.jobs HAVING count(*) > 0")


def test_inputs_come_and_what_is_new_leaves_with_the_output_and_errors(jobs: FileJobs) -> None:
    job = jobs.submit(
        "cat data.txt; echo oops >&2; tr a-z A-Z < data.txt > new.txt; mkdir d; echo x > d/y",
        {"data.txt": b"some text\n"},
    )
    done = jobs.completed(job)
    assert done["exitcode"] == 0
    assert jobs.outputs(job) == {
        "_condor_stdout": b"some text\n",
        "_condor_stderr": b"oops\n",
        "new.txt": b"SOME TEXT\n",
    }


# ---- inputs


def test_the_executable_is_condor_exec_exe_and_stdin_travels_too(jobs: FileJobs) -> None:
    job = jobs.submit('echo "$0"; stat -c %a "$0"; cat', {"in.txt": b"from stdin\n"}, In="in.txt")
    jobs.completed(job)
    first, mode, stdin = bytes(jobs.outputs(job)["_condor_stdout"] or b"").decode().splitlines()  # type: ignore[arg-type]
    assert first.endswith("/condor_exec.exe")
    assert (mode, stdin) == ("755", "from stdin")


def test_directories_and_empty_files_come_as_they_were(jobs: FileJobs) -> None:
    job = jobs.submit(
        "find d -type f | sort; cat d/e/f; test -d empty && wc -c < nothing",
        {"d/": None, "d/e/": None, "d/e/f": b"deep\n", "d/g": b"g\n", "empty/": None, "nothing": b""},
    )
    jobs.completed(job)
    assert jobs.outputs(job)["_condor_stdout"] == b"d/e/f\nd/g\ndeep\n0\n"


def test_a_file_of_many_chunks_comes_and_goes_unchanged(jobs: FileJobs) -> None:
    data = bytes(range(256)) * 4096 * 3 + b"and some"
    job = jobs.submit("cp big copy; sync", {"big": data})
    jobs.completed(job)
    assert jobs.outputs(job)["copy"] == data


def test_without_an_executable_to_bring_the_host_s_is_run(jobs: FileJobs) -> None:
    job = submit_with_files(jobs.pool.conninfo, {"a": b"A\n"}, cmd="/bin/cat", Arguments="a")
    jobs.completed(job)
    assert jobs.outputs(job)["_condor_stdout"] == b"A\n"


def test_an_executable_whose_interpreter_is_missing_says_so(jobs: FileJobs) -> None:
    job = submit_with_files(jobs.pool.conninfo, {}, script="#!/no/such/interpreter\n")
    held = jobs.held(job)
    assert "interpreter '/no/such/interpreter' does not exist" in held["holdreason"]


def test_more_input_than_the_job_allows_itself_holds_it_with_32(jobs: FileJobs) -> None:
    job = jobs.submit("true", {"big": b"x" * (1 << 20) + b"x"}, MaxTransferInputMB=1)
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (32, 0)
    assert "max_transfer_input_mb allows 1 MB" in held["holdreason"]


# ---- outputs


def test_an_input_that_was_changed_is_output_and_one_that_was_not_is_none(jobs: FileJobs) -> None:
    job = jobs.submit("echo more >> changed", {"changed": b"some\n", "kept": b"kept\n"})
    jobs.completed(job)
    assert set(jobs.outputs(job)) == {"_condor_stdout", "_condor_stderr", "changed"}


def test_listed_outputs_are_exactly_those_and_a_directory_goes_with_what_is_in_it(jobs: FileJobs) -> None:
    job = jobs.submit(
        "mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g; echo 3 > listed; echo 4 > other",
        TransferOutput="listed, d",
    )
    jobs.completed(job)
    outputs = jobs.outputs(job)
    assert outputs.pop("_condor_stdout") == outputs.pop("_condor_stderr") == b""
    assert outputs == {"listed": b"3\n", "d/": None, "d/e/": None, "d/e/f": b"1\n", "d/g": b"2\n"}


def test_a_slash_at_the_end_takes_what_is_in_a_directory(jobs: FileJobs) -> None:
    job = jobs.submit("mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g", TransferOutput="d/")
    jobs.completed(job)
    outputs = jobs.outputs(job)
    assert {name for name in outputs if not name.startswith("_")} == {"e/", "e/f", "g"}


@pytest.mark.parametrize(("preserve", "name"), [(False, "c.txt"), (True, "a/b/c.txt")])
def test_relative_paths_are_kept_where_the_job_says_so(jobs: FileJobs, preserve: bool, name: str) -> None:
    job = jobs.submit(
        "mkdir -p a/b; echo x > a/b/c.txt", TransferOutput="a/b/c.txt", PreserveRelativePaths=preserve
    )
    jobs.completed(job)
    assert jobs.outputs(job)[name] == b"x\n"


def test_an_empty_list_sends_nothing_but_output_and_errors(jobs: FileJobs) -> None:
    job = jobs.submit("echo x > new", TransferOutput="")
    jobs.completed(job)
    assert set(jobs.outputs(job)) == {"_condor_stdout", "_condor_stderr"}


def test_output_and_errors_in_one_file_and_nowhere(jobs: FileJobs) -> None:
    job = jobs.submit("echo out; echo err >&2", Out="both", Err="both")
    nowhere = jobs.submit("echo out; echo err >&2", Out="/dev/null", Err="/dev/null")
    jobs.completed(job)
    assert jobs.outputs(job) == {"_condor_stdout": b"out\nerr\n"}
    jobs.completed(nowhere)
    assert jobs.outputs(nowhere) == {}


def test_a_listed_output_that_is_missing_holds_the_job_with_12(jobs: FileJobs) -> None:
    job = jobs.submit("echo hello", TransferOutput="not_there")
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (12, 2)
    assert "Transfer output files failure" in held["holdreason"]
    assert "not_there: (errno 2) No such file or directory" in held["holdreason"]


def test_more_output_than_the_job_allows_itself_holds_it_with_33(jobs: FileJobs) -> None:
    job = jobs.submit("head -c 1048577 /dev/zero > big", MaxTransferOutputMB=1)
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (33, 0)


def test_a_job_that_dies_by_a_signal_sends_its_output(jobs: FileJobs) -> None:
    job = jobs.submit("echo x > new; kill -9 $$")
    done = jobs.completed(job)
    assert (done["exitbysignal"], done["exitsignal"]) == (True, 9)
    assert jobs.outputs(job)["new"] == b"x\n"


@pytest.mark.parametrize(("code", "sent"), [(3, {"good"}), (0, {"core.log"})])
def test_on_success_sends_the_output_of_a_success_and_else_the_failure_files(
    jobs: FileJobs, code: int, sent: set[str]
) -> None:
    job = jobs.submit(
        f"echo x > good; echo y > core.log; exit {code}",
        WhenToTransferOutput="ON_SUCCESS",
        JobSuccessExitCode=3,
        TransferOutput="good",
        FailureFiles="core.log",
    )
    jobs.completed(job)
    assert set(jobs.outputs(job)) - {"_condor_stdout", "_condor_stderr"} == sent


# ---- before the job's own end


def running(jobs: FileJobs, job: str) -> None:
    until(
        lambda: jobs.row(
            "SELECT FROM fetchwork.runs WHERE jobid = %s AND state = 'running' AND jobpid IS NOT NULL"
            " AND outcome IS NULL",
            job,
        ),
        f"job {job} running",
    )


def test_what_an_evicted_job_saved_is_there_when_it_starts_again(jobs: FileJobs) -> None:
    job = jobs.submit(
        "if [ -f state ]; then cat state data; exit 0; fi; cat data > state; echo saved >> state; rm data;"
        " exec sleep 600",
        {"data": b"data\n"},
        WhenToTransferOutput="ON_EXIT_OR_EVICT",
        MaxVacateTime=30,
    )
    running(jobs, job)
    scalar(jobs.database, "vacate", jobs=[job])
    jobs.completed(job)
    assert jobs.outputs(job)["_condor_stdout"] == b"data\nsaved\ndata\n"


def test_what_a_removed_job_has_written_is_gone(jobs: FileJobs) -> None:
    job = jobs.submit("echo x > new; exec sleep 600")
    running(jobs, job)
    scalar(jobs.database, "remove", jobs=[job])
    until(
        lambda: jobs.row("SELECT FROM fetchwork.history WHERE jobid = %s AND jobstatus = 3", job),
        f"job {job} Removed",
    )
    assert jobs.outputs(job) == {}


# ---- where it may run


def test_a_job_whose_files_are_not_stored_is_not_offered_where_nothing_is_shared(jobs: FileJobs) -> None:
    shared = jobs.submit("true", FetchWorkFiles="shared:/home", ShouldTransferFiles="IF_NEEDED")
    stored = jobs.submit("echo here", FetchWorkFiles="stored", ShouldTransferFiles="IF_NEEDED")
    jobs.completed(stored)
    assert jobs.outputs(stored)["_condor_stdout"] == b"here\n"
    row = jobs.row("SELECT jobstatus, numjobstarts FROM fetchwork.jobs WHERE jobid = %s", shared)
    assert row is not None
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 0)


# ---- what a job may try


def test_links_and_other_names_of_files_are_sent_as_what_they_are(jobs: FileJobs) -> None:
    job = jobs.submit(
        "echo real > real; ln -s real link; ln real other; ln -s /etc/shadow secret; ln -s /tmp away; mkfifo pipe;"
        " ln -s nowhere broken"
    )
    done = jobs.completed(job)
    assert done["exitcode"] == 0
    outputs = {name: value for name, value in jobs.outputs(job).items() if not name.startswith("_")}
    # what the job's user can't read, nobody reads in its stead
    secret = outputs.pop("secret", None)
    assert secret is None
    assert outputs == {"real": b"real\n", "link": b"real\n", "other": b"real\n"}
