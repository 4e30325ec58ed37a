"""The README's commands make an execute host that runs jobs and fills."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fetchwork.pool.condorroot import CondorRoot
from fetchwork.pool.postgres import system_programs
from tests.condor.readme_host import CORES, ReadmeHost, commands, readme_host, server_with_tls
from tests.condor.stock_fill import fill
from tests.support.by_name import scalar

JOBS = 16
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="makes a machine of its own, which only root can")


@pytest.fixture
def host(root: CondorRoot, public_directory: Callable[[], Path]) -> Iterator[ReadmeHost]:
    if system_programs() is None:
        pytest.skip("no PostgreSQL of the system, which has TLS: nothing in /usr/lib/postgresql/*/bin")
    with (
        server_with_tls(public_directory()) as (postgres, authority),
        readme_host(root, public_directory(), postgres, authority) as made,
    ):
        yield made


def test_the_readme_needs_three_commands_on_a_host() -> None:
    assert [len(block) for block in commands()] == [2, 3]


@root_only
def test_commands_of_the_readme_make_a_host_that_runs_jobs_and_fills(host: ReadmeHost) -> None:
    database = host.database
    status, file = host.debian.run("stat -c '%U %a' /etc/fetchwork/host.toml; cat /etc/fetchwork/host.toml")
    assert file.startswith("condor 600\n")
    assert "sslmode=verify-full" in file
    assert "sslrootcert=/var/lib/fetchwork/identity/main.crt" in file
    encrypted = "SELECT bool_and(s.ssl) AS ssl FROM pg_stat_ssl AS s JOIN pg_stat_activity USING (pid)"
    host.wait_until(
        lambda: database.query(f"{encrypted} WHERE usename LIKE 'fetchwork_host%%'", []) == [{"ssl": True}]
    )
    job = scalar(database, "submit", cmd="/bin/sh", arguments="-c 'exit 7'", owner="nobody", iwd="/tmp")
    ended = "SELECT exitcode FROM fetchwork.history WHERE jobid = %s"
    host.wait_until(lambda: bool(database.query(ended, [job])))
    assert database.query(ended, [job]) == [{"exitcode": 7}]
    status, output = host.doctor()
    assert (status, "FAIL" in output, "warn" in output) == (0, False, False), output
    assert "partitionable" in output
    # each job in one run, and all cores at work; `make bench-fill` measures the speed
    filled = fill(host, jobs=JOBS, seconds=5)
    assert filled.outcomes == {"completed": JOBS}
    assert filled.most_at_once == CORES
