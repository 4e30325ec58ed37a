"""An access point that joined by an invitation for some accounts: jobs, logs, files and policies of these."""

import json
from pathlib import Path

import pytest

from fetchwork.config.identity import read_identity, write_identity
from tests.accesspoint.event_logs import JOBS
from tests.accesspoint.point import AccessPoint, RefusedError
from tests.accesspoint.test_files import (
    home,
    test_a_job_has_not_ended_before_its_files_are_back,
    test_what_a_job_left_comes_back_by_itself_as_its_owner,
)
from tests.accesspoint.test_logs import (
    mine,
    test_a_job_s_life_is_in_its_log_and_htcondor_reads_it,
    test_the_submit_event_is_in_the_log_before_the_answer,
)
from tests.accesspoint.test_scheduler import (
    program,
    test_after_an_end_of_the_access_point_it_runs_again_and_never_twice_at_once,
    test_it_runs_as_its_owner_takes_no_slot_and_leaves_nothing_behind,
)
from tests.support.direct_queue import DirectQueue
from tests.support.joining import invite, run_host
from tests.support.waiting import until

# the same tests with the role of an access point that joined
__all__ = [
    "home", "mine", "program",
    "test_a_job_has_not_ended_before_its_files_are_back",
    "test_a_job_s_life_is_in_its_log_and_htcondor_reads_it",
    "test_after_an_end_of_the_access_point_it_runs_again_and_never_twice_at_once",
    "test_it_runs_as_its_owner_takes_no_slot_and_leaves_nothing_behind",
    "test_the_submit_event_is_in_the_log_before_the_answer",
    "test_what_a_job_left_comes_back_by_itself_as_its_owner",
]  # fmt: skip
BOUNDS = ["--access-point", "--owners", "nobod?"]


@pytest.fixture
def identity(directory: Path) -> Path:
    """A directory for the identity, root's alone."""
    return directory / "identity"


@pytest.fixture
def point_conninfo(conninfo: str, identity: Path) -> str:
    """The connection string of an access point that joined, as it stands in the file of its environment."""
    file = identity.parent / "access-point.env"
    file.write_text("# by hand\nFETCHWORK_DSN=host=before\nTZ=UTC\n")
    words = ["--name", "point", "--state", identity, "--config", file]
    assert "joined; wrote" in run_host(conninfo, "join", invite(conninfo, *BOUNDS), *words)
    assert file.stat().st_mode & 0o777 == 0o600
    *others, line = file.read_text().splitlines()
    assert others == ["# by hand", "TZ=UTC"]
    return line.removeprefix("FETCHWORK_DSN=")


def test_accounts_that_it_was_not_invited_for_are_refused(point: AccessPoint, directory: Path) -> None:
    log = directory / "bin.log"
    with pytest.raises(RefusedError, match="may not act for Owner 'bin'; allowed: those of its invitation"):
        point.submit("bin", JOBS.format(log, 1))
    assert not log.exists()
    assert point.slots.rows("SELECT owner FROM fetchwork.job") == []


def test_policies_of_jobs_of_all_rest(conninfo: str, point: AccessPoint, slots: DirectQueue) -> None:
    slots.submit(Owner="alice", PeriodicRemove="/Expr(JobStatus == 1)/")
    assert slots.scalar("policies_rest") is True


def test_its_identity_is_renewed_while_it_serves(
    conninfo: str, point: AccessPoint, identity: Path, mine: Path
) -> None:
    path = identity / "main.pgpass"
    before = read_identity(path)
    assert before is not None
    # as after two thirds of its life
    write_identity(path, type(before)(before.role, before.password, 1, 0, 1))
    point.kill()
    point.start()
    until(lambda: "identity_renewed" in point.log(), "its renewal")
    assert read_identity(path) != before
    point.submit("nobody", JOBS.format(mine / "a.log", 1))
    (row,) = json.loads(run_host(conninfo, "list", "--json"))
    assert (row["host"], row["state"]) == ("access point point", "valid")


def test_it_serves_nobody_once_it_is_revoked(conninfo: str, point: AccessPoint, mine: Path) -> None:
    point.submit("nobody", JOBS.format(mine / "a.log", 1))
    assert "is revoked" in run_host(conninfo, "revoke", "access point point")
    with pytest.raises(RefusedError):
        point.submit("nobody", JOBS.format(mine / "a.log", 1))
