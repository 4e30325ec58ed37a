"""Two pilots on one machine, each under an account of its own, started as the page of examples describes."""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from fetchwork.cli import host as host_command
from fetchwork.db.calls import files
from fetchwork.db.database import Database
from fetchwork.pool import demo
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.queue import Queue
from fetchwork.queue.outputs.retrieving import bring_outputs
from tests.condor.readme_host import HOST, Debian, debian
from tests.support.by_name import scalar
from tests.support.waiting import until

EXAMPLES = Path(__file__).parents[2] / "config-examples"
DIRECTORY = "/srv/pilot"
ACCOUNTS = ("alice", "bob")
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes a machine of its own, which only root can")


def commands() -> list[str]:
    """The commands of the page's paragraph about pilots."""
    paragraph = (EXAMPLES / "README.md").read_text().partition("**[pilot](pilot.toml)**")[2]
    block = re.search(r"```sh\n(.*?)```", paragraph, re.S)
    assert block
    return block[1].strip().splitlines()


class Pilots:
    """The pilots of ``ACCOUNTS``."""

    def __init__(self, machine: Debian, database: Database, invitation: str) -> None:
        self.machine = machine
        self.database = database
        self.invitation = invitation

    def directory(self, account: str) -> str:
        return f"/srv/{account}/pilot"

    def run(self, account: str, command: str) -> tuple[int, str]:
        """Run a command of the page under the account, in its own directory."""
        command = command.replace(f"{DIRECTORY}/venv", "/opt/fetchwork/venv")
        command = command.replace(DIRECTORY, self.directory(account))
        words = f"setpriv --reuid={account} --regid={account} --clear-groups env HOME=/tmp"
        words = f"{words} FETCHWORK_INVITATION={self.invitation} sh -c"
        return self.machine.run(f"{words} {shlex.quote(command)}")

    def doctor(self, account: str) -> tuple[int, str]:
        return self.run(account, commands()[3])

    def master(self, account: str) -> str:
        return self.machine.run(f"pgrep -u {account} -x condor_master")[1].strip()


@pytest.fixture
def pilots(
    root: CondorRoot, public_directory: Callable[[], Path], conninfo: str, connection: psycopg.Connection
) -> Iterator[Pilots]:
    words = ["--dsn", conninfo, "invite", "--uses", str(len(ACCOUNTS))]
    invited = CliRunner().invoke(host_command.cli, words, catch_exceptions=False)
    invitation = invited.stdout.strip()
    assert re.fullmatch(r"fetchwork-invitation:\S+", invitation)
    text = (EXAMPLES / "pilot.toml").read_text()
    text = text.replace(f"{DIRECTORY}/venv", "/opt/fetchwork/venv")
    with debian(root, public_directory()) as machine, Database(conninfo) as database:
        made = Pilots(machine, database, invitation)
        for account in ACCOUNTS:
            directory = made.directory(account)
            machine.run(f"install -d -o {account} {directory}")
            status, output = machine.run(
                f"install -o {account} -m 600 /dev/stdin {directory}/host.toml <<'END'\n"
                f"{text.replace(DIRECTORY, directory)}END"
            )
            assert status == 0, output
        try:
            yield made
        finally:
            for account in ACCOUNTS:
                machine.run(f"pkill -QUIT -u {account} -x condor_master")
            machine.run("sleep 2")
            connection.execute("SELECT fetchwork.uninvite(number) FROM fetchwork.invitations()")
            connection.execute("SELECT fetchwork.revoke_host(host) FROM fetchwork.identities()")


def test_two_pilots_start_as_their_page_says_and_run_jobs_beside_each_other(pilots: Pilots) -> None:
    join, install, start, _ = commands()
    for account in ACCOUNTS:
        status, output = pilots.run(account, join)
        assert status == 0, output
        status, output = pilots.run(account, install)
        assert status == 0, output
        assert f"start the pilot with CONDOR_CONFIG={pilots.directory(account)}/condor_config" in output
        # the machine has an HTCondor of its own, which is not the pilot's
        status, output = pilots.doctor(account)
        assert status == 1
        assert re.search(r"FAIL  daemons +no condor_master runs", output)
        assert "condor_on" not in output
        status, output = pilots.run(account, start)
        assert status == 0, output
    database = pilots.database

    def hosts_that_fetch() -> set[str]:
        return {str(row["machine"]) for row in database.query("SELECT machine FROM fetchwork.slots")}

    names = {f"{account}-srv-{account}-pilot.{HOST}" for account in ACCOUNTS}
    until(lambda: hosts_that_fetch() == names, pilots.machine.run("tail -n 20 /srv/*/pilot/condor/log/*")[1])
    jobs = [
        scalar(
            database,
            "submit",
            cmd="/bin/sleep",
            arguments="2",
            owner="alice",
            iwd="/tmp",
            request_cpus=1,
        )
        for _ in range(16)
    ]
    ended = "SELECT count(*) AS jobs FROM fetchwork.history WHERE jobid = ANY (%s)"
    until(lambda: database.query(ended, [jobs])[0]["jobs"] == len(jobs))
    runs = database.query("SELECT outcome, host, remotehost FROM fetchwork.runs")
    assert [run["outcome"] for run in runs] == ["completed"] * len(jobs), runs
    assert {run["host"] for run in runs} == names
    # the slots of the two pilots have different names
    assert {str(run["remotehost"]).partition("@")[2] for run in runs} == {
        f"{account}-srv-{account}-pilot@{HOST}" for account in ACCOUNTS
    }
    for account in ACCOUNTS:
        told: list[tuple[int, str]] = []

        def slots_are_there(account: str = account, told: list[tuple[int, str]] = told) -> bool:
            told.append(pilots.doctor(account))
            return re.search("slots? fetch(es)?;", told[-1][1]) is not None

        until(slots_are_there, told)
        assert told[-1][0] == 0, told[-1][1]


def test_a_pilot_that_shares_no_file_system_runs_the_demo(
    pilots: Pilots, conninfo: str, public_directory: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in commands()[:3]:
        status, output = pilots.run("alice", command)
        assert status == 0, output
    database = pilots.database
    # a directory of the submitter, which the pilot's machine lacks
    home = public_directory() / "home"
    home.mkdir()
    (home / "job.sh").write_text("#!/bin/sh\ncat words > demo-file-$1.out; exit $2\n")
    (home / "job.sh").chmod(0o755)
    (home / "words").write_text("through the queue\n")
    assert pilots.machine.run(f"test -e {home}")[0] != 0
    monkeypatch.setenv("FETCHWORK_SHARED", "")
    description = demo.SUBMIT_DESCRIPTION.format(name="demo.sub").replace("= /tmp", f"= {home}")
    brings = description.replace("= /bin/sh", f"= {home}/job.sh")
    brings = re.sub("(?m)^arguments .*$", "arguments = $(Process) $(code)", brings)
    brings = brings.replace("queue 2", "transfer_input_files = words\nqueue 2")
    with Queue(conninfo) as queue:
        database.query(demo.SUBMIT_BY_SQL, [["alice"], ["alice"]])
        submitted = queue.submit(description, owner="alice").cluster()
        carried = queue.submit(brings, owner="alice").cluster()

    def results() -> list[dict[str, object]]:
        return [dict(row) for row in database.query(demo.RESULTS)]

    until(lambda: all(row["completed"] for row in results()), results)
    assert len(results()) == 20 + 8
    assert [row for row in results() if row["exitcode"] != row["expected"]] == []
    for cluster, word in ((submitted, None), (carried, "through the queue")):
        left = database.run(files.job_outputs(jobs=[str(cluster)]))
        assert len(left) == 8
        for one in left:
            bring_outputs(database, one)
            written = (home / f"demo-file-{one.proc_id}.out").read_text()
            assert written == f"{one.proc_id if word is None else word}\n"


def test_a_pilot_of_slurm_runs_a_job_and_gives_it_back_when_its_time_is_over(pilots: Pilots) -> None:
    machine, directory = pilots.machine, pilots.directory("alice")
    script = (EXAMPLES / "pilots-on-demand/pilot.sbatch").read_text()
    host = (EXAMPLES / "pilot.toml").read_text().replace(f"{DIRECTORY}/venv", "/opt/fetchwork/venv")
    for name, text in (("pilot.sbatch", script), ("pilot.toml", host)):
        assert machine.run(f"cat > {directory}/{name} <<'END'\n{text}END")[0] == 0
    # as Slurm starts it: the variables of its job, and those of the submitter
    slurm = f"cd {directory}; SLURM_JOB_ID=7 SLURM_SUBMIT_DIR={directory} TMPDIR={directory}"
    status, output = pilots.run("alice", f"{slurm} sh pilot.sbatch > slurm-7.out 2>&1 & echo $! > batch")
    assert status == 0, output

    def told() -> str:
        return machine.run(f"cat {directory}/slurm-7.out")[1]

    words = {"cmd": "/bin/sleep", "arguments": "600", "owner": "alice", "iwd": "/tmp"}
    job = scalar(pilots.database, "submit", **words)
    running = "SELECT host FROM fetchwork.runs WHERE jobid = %s AND jobpid IS NOT NULL AND outcome IS NULL"
    until(lambda: pilots.database.query(running, [job]), told)
    (run,) = pilots.database.query(running, [job])
    # a long directory's name ends with a hash
    assert re.fullmatch(rf"alice-srv-alice-pilot-fetchwork-pilot-7-\w+\.{re.escape(HOST)}", str(run["host"]))
    # the invitation is not for jobs
    (environment,) = machine.run("cat /proc/$(pgrep -x condor_master -u alice)/environ")[1:]
    assert "CONDOR_CONFIG" in environment
    assert "FETCHWORK_INVITATION" not in environment
    assert machine.run(f"kill -TERM $(cat {directory}/batch)")[0] == 0
    until(lambda: machine.run(f"kill -0 $(cat {directory}/batch)")[0] != 0, told)
    assert pilots.master("alice") == ""
    assert machine.run(f"test -e {directory}/fetchwork-pilot-7")[0] != 0
    idle = "SELECT jobid FROM fetchwork.jobs WHERE jobid = %s AND jobstatus = 1"
    until(lambda: pilots.database.query(idle, [job]), told)
    runs = pilots.database.query("SELECT * FROM fetchwork.runs WHERE jobid = %s ORDER BY runid", [job])
    evicted, *later = [run["outcome"] for run in runs]
    assert evicted == "evicted", runs
    # a partitionable slot of a startd that ends may fetch the job once more, and rejects it
    assert set(later) <= {"rejected"}, runs
