"""`fetchwork submit --from-schedd` beside a real schedd, with jobs of many sorts from its condor_submit."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.classad.bindings import JobAction
from fetchwork.classad.jsonform import to_json
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import VENV, CondorRoot
from fetchwork.queue import Queue
from tests.condor.moving_jobs import DIRECTORY, FILES, MOVING, RUNNING, STAYING, description
from tests.condor.moving_steps import STEPS
from tests.condor.sides import CONFIG, HOST
from tests.support.waiting import until

Ad = dict[str, Any]
Done = subprocess.CompletedProcess[str]
# odd slots fetch the jobs that have moved, even ones run those that stay at the schedd
SETTINGS = CONFIG.replace("METHODS = CLAIMTOBE", "METHODS = FS, CLAIMTOBE").replace(
    'TARGET.Owner == ifThenElse(SlotID == 1, "alice", "bob")',
    'TARGET.Side == ifThenElse(SlotID % 2 == 1, "here", "there")',
)
SETTINGS += """
ALLOW_WRITE = $(ALLOW_WRITE), alice@$(UID_DOMAIN)
PERIODIC_EXPR_INTERVAL = 1
"""
IDLE, RUNS, COMPLETED, HELD = 1, 2, 4, 5
JOB = f'+Side = "here"\ninitialdir = {DIRECTORY}\nexecutable = /bin/true\n'
SPOOLED = "condor_submit -spool"
HOWTO = Path(__file__).parents[2] / "docs/howto/from-a-schedd.md"
STEPPING = Path(__file__).parent / "moving_steps.py"


class Moving:
    """The pool of both, and what bob does with its schedd."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool
        self.directory = pool.directory / "home" / Path(DIRECTORY).name
        self.queue = Queue(pool.conninfo)
        shutil.copy(STEPPING, pool.directory / "tmp")
        (pool.directory / "tmp" / STEPPING.name).chmod(0o644)

    def run(self, *words: str, status: int = 0, user: str | None = "bob") -> Done:
        dsn = f"FETCHWORK_DSN={self.pool.conninfo}"
        done = self.pool.run_command(["env", "-C", DIRECTORY, dsn, *words], user=user)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def fetchwork(self, *words: str, status: int = 0, user: str | None = "bob") -> Done:
        return self.run(f"{VENV}/bin/fetchwork", *words, status=status, user=user)

    def move(self, *words: str, status: int = 0, user: str | None = "bob") -> Done:
        return self.fetchwork("submit", "--from-schedd", *words, status=status, user=user)

    def step(self, step: str, command: str, *words: str, status: int) -> Done:
        """Move with a command at a step."""
        python = [f"{VENV}/bin/python", f"/tmp/{STEPPING.name}", step, command]
        return self.run(*python, "submit", "--from-schedd", *words, status=status)

    def begin(self) -> None:
        """Remove all jobs of both, make the files anew, and let no job begin."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        self.directory.chmod(0o777)
        self.negotiator(on=False)
        self.fetchwork("queues", "default", "--pause")
        self.queue.act(JobAction.Remove, "true")
        self.pool.run_command(["condor_rm", "-all"])
        self.pool.run_command(["condor_rm", "-all", "-forcex"])
        until(lambda: not self.theirs(), "an empty schedd")
        until(lambda: not self.queue.query(), "an empty queue")
        for name, text in FILES.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def negotiator(self, *, on: bool) -> None:
        self.pool.run_command(["condor_on" if on else "condor_off", "-daemon", "negotiator"])
        until(lambda: self._negotiates() == on, f"the negotiator: {on}")

    def _negotiates(self) -> bool:
        status = self.pool.run_command(["condor_status", "-negotiator", "-af", "Name"])
        return bool(status.stdout.strip())

    def submit(self, text: str, *words: str, user: str = "bob") -> int:
        """Give a description to condor_submit; return the cluster."""
        (self.directory / "job.sub").write_text(text + "\n")
        (self.directory / "job.sub").chmod(0o644)
        done = self.run("condor_submit", *words, "job.sub", user=user)
        found = re.search(r"submitted to cluster (\d+)", done.stdout)
        assert found, done.stdout + done.stderr
        return int(found[1])

    def theirs(self) -> list[Ad]:
        """The jobs at the schedd."""
        ads = json.loads(self.pool.run_command(["condor_q", "-allusers", "-json"]).stdout or "[]")
        return sorted(ads, key=lambda ad: (ad["ClusterId"], ad["ProcId"]))

    def ours(self) -> list[Ad]:
        """The jobs here."""
        return sorted(map(to_json, self.queue.query()), key=lambda ad: (ad["ClusterId"], ad["ProcId"]))


@pytest.fixture(scope="module")
def pool_of_both(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Moving:
    return Moving(make_pool(slots=6, config=SETTINGS, host=HOST))


@pytest.fixture
def moving(pool_of_both: Moving) -> Moving:
    pool_of_both.begin()
    return pool_of_both


#: attributes whose values differ here, and why
DIFFERENT = {
    # the job's identity, and the time at which it came
    "ClusterId", "GlobalJobId", "User", "QDate", "EnteredCurrentStatus", "ServerTime", "JobSubmitMethod",
    "AutoClusterId",
    # no host is required to share a file system domain; compared below without that clause
    "Requirements", "RequestDisk",
    # measured on the host that runs the job
    "ImageSize", "ImageSize_RAW",
    # nothing is mailed
    "JobNotification",
}  # fmt: skip
#: attributes that a job lacks here
ABSENT = {
    # the schedd's and its submit's own
    "CondorPlatform", "CondorVersion", "SubmitVersion", "JobSubmitFile", "ScheddInterval", "AutoClusterAttrs",
    "DiskUsage_RAW", "ExecutableSize_RAW", "ContainerImageSource", "TransferInputSizeMB",
    # the host sees the files that the job writes
    "StreamIn", "StreamOut", "StreamErr",
    # nothing is mailed
    "NotifyUser",
}  # fmt: skip
#: attributes that it has here alone
ADDED = {
    *("FetchWorkQueue", "FetchWorkFiles", "AutoClusterId", "WhenToTransferOutput"),
    # of cron jobs: a schedd computes it before it starts them
    *("DeferralTime", "FetchWorkTimeZone"),
    *("NumEvicted", "NumLost", "NumHolds", "NumNotStarted"),
}
SAME_DOMAIN = " && (TARGET.FileSystemDomain == MY.FileSystemDomain)"


@pytest.mark.newest
def test_jobs_of_each_sort_arrive_with_the_meaning_that_they_had(moving: Moving) -> None:
    clusters = {moving.submit(description(name, "here")): name for name in MOVING}
    before = moving.theirs()
    told = moving.move("--json")
    assert told.stderr == ""
    moved = {one["From"]: one for one in json.loads(told.stdout)["moved"]}
    assert moved.keys() == clusters.keys()
    ours = {(ad["ClusterId"], ad["ProcId"]): ad for ad in moving.ours()}
    assert len(ours) == len(before) > 500
    for theirs in before:
        copy = ours[moved[theirs["ClusterId"]]["ClusterId"], theirs["ProcId"]]
        here = {name.lower(): value for name, value in copy.items()}
        sort = theirs["Sort"]
        for name, value in theirs.items():
            if name in ABSENT or (value is False and name == "OnExitHold"):
                assert name.lower() not in here
            elif name not in DIFFERENT:
                assert here.get(name.lower(), "missing") == value, (sort, name)
        assert copy["Requirements"] == theirs["Requirements"].replace(SAME_DOMAIN, ""), sort
        size = str(theirs["TransferInputSizeMB"])
        assert str(copy["RequestDisk"]) == str(theirs["RequestDisk"]).replace("TransferInputSizeMB", size)
        assert copy.keys() - theirs.keys() <= ADDED, sort
    # each original is held and says where its copy is
    for ad in moving.theirs():
        here = moved[ad["ClusterId"]]["ClusterId"]
        assert (ad["JobStatus"], ad["HoldReason"]) == (HELD, f"moved to cluster {here} of fetchwork")
    again = moving.move("-dry-run")
    assert again.stdout == "0 job(s) of 0 cluster(s) would come.\n"
    assert all("it is held, not idle" in line for line in again.stderr.splitlines())
    assert moving.move().stdout == "" and len(moving.ours()) == len(ours)


@pytest.mark.newest
def test_what_stays_is_named_in_one_line_and_is_as_it_was(moving: Moving) -> None:
    (moving.directory / "gone").write_text("x")
    clusters = {}
    for name in STAYING:
        words = ["-spool"] if name == SPOOLED else []
        clusters[moving.submit(description(name, "here"), *words)] = name
    (moving.directory / "gone").unlink()
    spooled = next(cluster for cluster, name in clusters.items() if name == SPOOLED)
    until(
        lambda: [ad["JobStatus"] for ad in moving.theirs() if ad["ClusterId"] == spooled] == [IDLE], "files"
    )
    before = _states(moving)
    told = moving.move(status=1)
    lines = told.stderr.splitlines()
    for cluster, name in clusters.items():
        (line,) = (line for line in lines if line.startswith(f"{cluster}."))
        assert STAYING[name][1] in line, name
    idle = sum(state == IDLE for state, _, _ in before.values())
    assert f"{idle} of {idle} idle jobs can't come, so none does" in lines[-1]
    assert len(lines) == len(clusters) + 1
    assert moving.move("--partly").stdout == ""
    assert (moving.ours(), _states(moving)) == ([], before)


def _states(moving: Moving) -> dict[str, tuple[int, object, object]]:
    return {
        ad["GlobalJobId"]: (ad["JobStatus"], ad["EnteredCurrentStatus"], ad.get("HoldReason"))
        for ad in moving.theirs()
    }


@pytest.mark.newest
def test_jobs_that_have_begun_at_the_schedd_go_on_there(moving: Moving) -> None:
    sleep = f"initialdir = {DIRECTORY}\nexecutable = sleeps\nshould_transfer_files = YES\n"
    sleep += '+Side = "there"\narguments = $(Cluster)\n'
    (moving.directory / "sleeps").write_text(
        f"#!/bin/sh\necho x > state\ntouch {DIRECTORY}/began.$1\nsleep 600\n"
    )
    (moving.directory / "sleeps").chmod(0o755)
    runs = moving.submit(f"{sleep}queue")
    saves = moving.submit(f"{sleep}when_to_transfer_output = ON_EXIT_OR_EVICT\nqueue")
    left = moving.submit(f"{JOB.replace('here', 'there')}leave_in_queue = true\nqueue")
    moving.negotiator(on=True)
    until((moving.directory / f"began.{saves}").exists, "the job that saves")
    _await_states(moving, {runs: RUNS, saves: RUNS, left: COMPLETED})
    moving.negotiator(on=False)
    moving.run("condor_vacate_job", str(saves))
    _await_states(moving, {saves: IDLE})
    (moving.directory / "node.sub").write_text("executable = /bin/true\nqueue\n")
    (moving.directory / "night.dag").write_text("JOB A node.sub\n")
    moving.run("condor_submit_dag", "night.dag")
    until(lambda: any("DAGManJobId" in ad for ad in moving.theirs()), "the DAG's node")
    (node,) = (ad for ad in moving.theirs() if "DAGManJobId" in ad)
    dag = node["DAGManJobId"]
    moves = moving.submit(f"{sleep}queue")
    told = moving.move("--partly")
    assert set(told.stderr.splitlines()) == {
        f"{runs}.0 can't come: it is running, not idle",
        f"{saves}.0 can't come: it has run, and the schedd has the files that it saved",
        f"{left}.0 can't come: it is completed, not idle",
        f"{dag}.0 can't come: it is running, not idle",
        f"{node['ClusterId']}.0 can't come: condor_dagman waits for it at the schedd, as job {dag}",
    }
    assert re.fullmatch(rf"cluster {moves}: 1 job\(s\) to cluster \d+\.\n", told.stdout)
    _await_states(
        moving, {runs: RUNS, saves: IDLE, left: COMPLETED, dag: RUNS, node["ClusterId"]: IDLE, moves: HELD}
    )


def _await_states(moving: Moving, states: dict[int, int]) -> None:
    def found() -> bool:
        return states.items() <= {ad["ClusterId"]: ad["JobStatus"] for ad in moving.theirs()}.items()

    until(found, lambda: [(ad["ClusterId"], ad["JobStatus"]) for ad in moving.theirs()])


def test_jobs_that_moved_write_what_they_would_have_written_at_the_schedd(moving: Moving) -> None:
    sides = {name: [moving.submit(description(name, side)) for side in ("here", "there")] for name in RUNNING}
    there = {cluster for _, cluster in sides.values()}
    moved = json.loads(moving.move("--constraint", 'Side == "here"', "--json").stdout)["moved"]
    moving.fetchwork("queues", "default", "--resume")
    moving.negotiator(on=True)
    until(lambda: not moving.ours(), "the ends of jobs here", every_s=0.2)
    until(lambda: not there & {ad["ClusterId"] for ad in moving.theirs()}, "the ends there", every_s=0.2)
    (files,) = (one["ClusterId"] for one in moved if one["From"] == sides["directories"][0])
    moving.fetchwork("transfer-data", str(files))
    written: dict[str, dict[str, str]] = {"here": {}, "there": {}}
    for path in sorted(moving.directory.rglob("*")):
        side, _, name = str(path.relative_to(moving.directory)).partition(".")
        if side in written and path.is_file():
            written[side][name] = path.read_text()
    assert written["here"] == written["there"]
    assert written["here"]["made/file"] == "it\n"
    assert written["here"]["new_arguments.1.out"] == "<one>\n<two  'quoted'>\n<\"three\">\n<1>\n"
    # one of two ends well at once, as success_exit_code says
    assert written["here"]["tries"] == "again\n" * 4


@pytest.mark.parametrize("how", ["hold", "remove"])
@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_is_killed_and_made_again_brings_each_job_once(
    moving: Moving, step: str, how: str
) -> None:
    # every second job of the first cluster is held, so that the others are held by two requests
    states = "".join(f"\n{'true' if number % 2 else 'false'}" for number in range(260))
    first = moving.submit(f"{JOB}hold = $(state)\nqueue state from ({states}\n)")
    moving.submit(f"{JOB}queue 5")
    moving.step(step, "kill -9 $PPID", "--originals", how, status=-9)
    # a job that becomes idle between the two is of another move
    moving.run("condor_release", f"{first}.1")
    moving.move("--originals", how)
    assert len(moving.ours()) == 130 + 1 + 5
    moving.move("--originals", how)
    left = moving.theirs()
    assert len(moving.ours()) == 130 + 1 + 5
    own = [ad for ad in left if str(ad["HoldReason"]).startswith("submitted on hold")]
    moved = [ad for ad in left if str(ad["HoldReason"]).startswith("moved to cluster ")]
    assert (len(own), len(moved), len(left)) == (129, *((136, 265) if how == "hold" else (0, 129)))


def test_jobs_that_are_refused_at_the_last_moment_are_idle_again(moving: Moving) -> None:
    clusters = [moving.submit(description("directories", "here")) for _ in range(2)]
    told = moving.step("held", "mv data away", status=1)
    assert "input 'data' can't be transferred" in told.stderr
    assert [ad["JobStatus"] for ad in moving.theirs()] == [IDLE, IDLE]
    assert moving.ours() == []
    (moving.directory / "away").rename(moving.directory / "data")
    assert [line.split(":")[0] for line in moving.move().stdout.splitlines()] == [
        f"cluster {cluster}" for cluster in clusters
    ]


def test_a_job_that_is_not_idle_any_more_when_it_is_to_be_held_stays(moving: Moving) -> None:
    cluster = moving.submit(f"{JOB}queue 3")
    told = moving.step("before the hold", f"condor_hold -reason mine {cluster}.1", status=0)
    assert f"1 job(s) of cluster {cluster} could not be held and stay" in told.stderr
    assert f"cluster {cluster}: 2 job(s)" in told.stdout
    reasons = [str(ad["HoldReason"]) for ad in moving.theirs()]
    assert [reason.startswith("mine") for reason in reasons] == [False, True, False]


def test_no_periodic_release_brings_an_original_back(moving: Moving) -> None:
    moved = moving.submit(f"{JOB}periodic_release = true\nqueue")
    moving.move()
    # another job, which the schedd holds by itself, is released meanwhile
    other = moving.submit(f"{JOB}periodic_hold = true\nperiodic_release = true\nqueue")
    until(lambda: any(ad.get("NumHolds", 0) > 1 for ad in moving.theirs() if ad["ClusterId"] == other), "it")
    (original,) = (ad for ad in moving.theirs() if ad["ClusterId"] == moved)
    assert (original["JobStatus"], original["NumHolds"]) == (HELD, 1)


def test_root_moves_the_jobs_of_all_and_others_their_own(moving: Moving) -> None:
    clusters = {owner: moving.submit(f"{JOB}queue", user=owner) for owner in ("alice", "bob")}
    told = moving.move("--constraint", "true", "--originals", "remove")
    assert f"1 job(s) of cluster {clusters['alice']} could not be held and stay" in told.stderr
    assert [ad["Owner"] for ad in moving.ours()] == ["bob"]
    moving.move("--originals", "remove", user=None)
    assert [ad["Owner"] for ad in moving.ours()] == ["bob", "alice"]
    until(lambda: not moving.theirs(), "an empty schedd")


def test_root_reads_a_job_s_files_with_the_rights_of_its_owner(moving: Moving) -> None:
    transfers = f"{JOB}should_transfer_files = YES\nskip_filechecks = true\n"
    (moving.directory / "roots").write_text("secret")
    (moving.directory / "roots").chmod(0o600)
    moving.run("sh", "-c", "mkdir -m 700 bobs; echo x > bobs/file")
    steals = moving.submit(f"{transfers}transfer_input_files = roots\nqueue")
    others = moving.submit(f"{transfers}transfer_input_files = bobs/file\nqueue", user="alice")
    comes = moving.submit(f"{transfers}transfer_input_files = bobs/file\nqueue")
    told = moving.move("--partly", user=None)
    lines = dict(line.split(" can't come: ") for line in told.stderr.splitlines())
    assert lines.keys() == {f"{steals}.0", f"{others}.0"}
    assert all("Permission denied" in line for line in lines.values())
    assert re.fullmatch(rf"cluster {comes}: 1 job\(s\) to cluster \d+\.\n", told.stdout)


def test_the_page_names_what_stays() -> None:
    page = HOWTO.read_text()
    table = page[page.index("## What stays") : page.index("## What may go wrong")]
    for name in STAYING:
        assert f"`{name}" in table or name == "input that is gone", name


@pytest.mark.parametrize("originals", ["held", "removed"])
def test_the_page_s_commands_do_what_it_says(moving: Moving, originals: str) -> None:
    blocks = re.findall(r"(?s)```sh\n(.*?)\n```", HOWTO.read_text())
    asks, moves, removes, moves_all, environment = [
        block.replace("ap1.example.org", moving.pool.host_name) for block in blocks
    ]
    moving.submit(f"{JOB}queue 2")
    shell = ["sh", "-c"]
    path = f"export HOME=/home/bob PATH={VENV}/bin:$PATH\n"
    assert moving.run(*shell, path + asks).stdout == "2 job(s) of 1 cluster(s) would come.\n"
    if originals == "held":
        moving.run(*shell, path + moves)
        assert [ad["JobStatus"] for ad in moving.theirs()] == [HELD, HELD]
        moving.run(*shell, path + removes)
    else:
        moving.run(*shell, path + moves_all)
    until(lambda: not moving.theirs(), "an empty schedd")
    told = moving.run(*shell, f"{path}{environment}\ncondor_q -af ProcId")
    assert told.stdout == "0\n1\n"
