"""Chains where parts are killed, memory runs out, slots are taken away, and jobs are hostile."""

import contextlib
import json
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fetchwork.agent.runs.orphans import child_of
from fetchwork.errors import NotFound
from fetchwork.pool import PersonalPool
from fetchwork.process import Process
from tests.condor.chain_jobs import UNCHAINED, ChainJobs
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.conftest import RESTARTS
from tests.condor.pool_jobs import jobs_in
from tests.support.by_name import scalar
from tests.support.invariants import violations
from tests.support.waiting import until

MEMORY_MIB = 128
HOST = {
    "keyword": {"FETCHWORK": {"chain_s": 600}},
    "slots": {"update_interval_s": 5, "type": [{"number": 1, "count": 3, "memory_mib": MEMORY_MIB}]},
}
CGROUPS = Path("/sys/fs/cgroup")


@pytest.fixture(scope="module")
def pool(make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    pool = make_pool(slots=3, host=HOST, config=RESTARTS)
    compile_hooks(hook_directory(pool))
    return pool


@pytest.fixture
def everywhere(pool: PersonalPool) -> Iterator[ChainJobs]:
    with jobs_in(pool, ChainJobs) as jobs:
        yield jobs
    with psycopg.connect(pool.conninfo) as connection:
        assert violations(connection) == []


@pytest.fixture
def jobs(everywhere: ChainJobs) -> Iterator[ChainJobs]:
    """Jobs of bob have all slots but one, so that all jobs of alice share that one."""
    beside = everywhere.submit("exec sleep 3600", 2, Owner="bob")
    for job in beside:
        everywhere.started(job)
    yield everywhere
    assert [everywhere.status(job) for job in beside] == [2, 2]


def tries(name: str) -> str:
    """A script that sleeps at its first try and exits with 7 at the second."""
    return f"[ -e /tmp/{name} ] && exit 7; touch /tmp/{name}; exec sleep 600"


# -- memory


def test_a_job_over_its_memory_is_held_as_without_a_chain_and_the_chain_goes_on(jobs: ChainJobs) -> None:
    # the reader keeps text without an end of line
    taken = f"(head -c {3 * MEMORY_MIB << 20} /dev/zero; sleep 900) | tail"
    chained, run = jobs.second(taken)
    (after,), (alone,) = jobs.submit("true"), jobs.submit(taken, **UNCHAINED)
    jobs.completed(after)
    held = [jobs.held(job) for job in (chained, alone)]
    assert [(row["holdreasoncode"], row["holdreasonsubcode"]) for row in held] == [(34, 102)] * 2
    first, second = (re.sub(r"\d+", "N", row["holdreason"]) for row in held)
    assert first == second
    follows, by_itself = jobs.of_chains([after, alone])
    assert follows["first"] == run["chain"]
    assert by_itself["first"] == by_itself["runid"]


@contextlib.contextmanager
def cgroup(parent: Path) -> Iterator[Path]:
    """A cgroup of the kernel; skips the test where none can be made."""
    path = parent / f"fetchwork-{uuid.uuid4().hex[:12]}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made below '{parent}': {error.strerror}")
    try:
        yield path
    finally:
        until(lambda: not (path / "cgroup.procs").read_text().split())
        path.rmdir()


def test_a_job_that_the_kernel_kills_for_memory_ends_as_without_a_chain_and_the_chain_goes_on(
    jobs: ChainJobs,
) -> None:
    """A cgroup of version 1 kills the largest process; of version 2, as HTCondor sets it, all of them."""
    waits = "while [ ! -e /tmp/{} ]; do sleep 0.1; done; exec tail"
    go = jobs.pool.directory / "tmp"
    with cgroup(CGROUPS / "memory") as group:
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
        chained, run = jobs.second(waits.format("go.1"), In="/dev/zero")
        (after,), (alone,) = (
            jobs.submit("true"),
            jobs.submit(waits.format("go.2"), In="/dev/zero", **UNCHAINED),
        )
        for process in jobs.processes(run):
            (group / "cgroup.procs").write_text(str(process.pid))
        (go / "go.1").touch()
        jobs.completed(after)
        starter = jobs.starter(jobs.started(alone))
        process = jobs.wait(lambda: child_of(starter), "the job's process")
        (group / "cgroup.procs").write_text(str(process.pid))
        (go / "go.2").touch()
        ends = [jobs.completed(job) for job in (chained, alone)]
    assert [(end["exitbysignal"], end["exitsignal"]) for end in ends] == [(True, 9)] * 2
    (follows,) = jobs.of_chains([after])
    assert follows["first"] == run["chain"]


def test_a_job_that_the_kernel_kills_with_its_cgroup_is_lost_soon_and_runs_again_alone(
    jobs: ChainJobs,
) -> None:
    """cgroup.kill ends all processes of the cgroup, as the OOM killer does with memory.oom.group."""
    parent = next((each for each in (CGROUPS / "unified", CGROUPS) if (each / "cgroup.procs").exists()), None)
    if parent is None:
        pytest.skip("no cgroups of version 2")
    with cgroup(parent) as group:
        if not (group / "cgroup.kill").exists():
            pytest.skip("the kernel has no cgroup.kill")
        job, run = jobs.second(tries("group"))
        (after,) = jobs.submit("true")
        for process in jobs.processes(run):
            (group / "cgroup.procs").write_text(str(process.pid))
        killed_at = time.time()
        (group / "cgroup.kill").write_text("1")
        lost = jobs.end_of(run)
    print(f"\nkill of the cgroup to the end of its run: {lost['ended_at'].timestamp() - killed_at:.2f} s")
    assert lost["outcome"] == "lost"
    assert jobs.completed(job)["exitcode"] == 7
    jobs.completed(after)
    outcomes = [run["outcome"] for run in jobs.of_chains([job])]
    assert outcomes == ["lost", "completed"]
    again, follows = jobs.of_chains([job])[-1], jobs.of_chains([after])[-1]
    assert again["chain"] is None
    assert follows["first"] == follows["runid"]


# -- kill -9


@pytest.mark.parametrize("part", ["runner", "starter"])
def test_a_killed_part_of_a_chain_loses_its_run_soon_and_the_job_runs_again(
    jobs: ChainJobs, part: str
) -> None:
    job, run = jobs.second(tries(part))
    runner, process = jobs.processes(run)
    victim = runner if part == "runner" else jobs.starter(run)
    killed_at = time.time()
    victim.signal(signal.SIGKILL)
    lost = jobs.end_of(run)
    print(f"\nkill -9 of the {part} to the end of its run: {lost['ended_at'].timestamp() - killed_at:.2f} s")
    assert lost["outcome"] == "lost"
    assert not process.alive
    assert jobs.completed(job)["exitcode"] == 7
    assert [run["outcome"] for run in jobs.of_chains([job])] == ["lost", "completed"]


def test_a_killed_database_loses_no_job_of_a_chain(jobs: ChainJobs) -> None:
    """The job ends while there is no database: the runner becomes JOB_EXIT, and the chain is over."""
    waits = "while [ ! -e /tmp/database ]; do sleep 0.1; done; exit 5"
    job, run = jobs.second(waits)
    after = jobs.submit("exit 3", 20)
    jobs.processes(run)
    jobs.database.close()
    jobs.pool.postgres.crash()
    (jobs.pool.directory / "tmp/database").touch()
    spool = jobs.pool.directory / "run/spool"
    until(lambda: list(spool.glob("*.report")), "a spooled report")
    jobs.pool.postgres.start()
    assert jobs.completed(job)["exitcode"] == 5
    assert {jobs.completed(each)["exitcode"] for each in after} == {3}
    assert Counter(run["outcome"] for run in jobs.of_chains([job, *after])) == {"completed": 21}


# -- a hostile job

#: reads of its runner what it can, and asks the agent as if it were the runner
ATTACK = """
import json, os, socket, time
from fetchwork.hook.wire import ReplyReader, Request, encode_request
while not os.path.exists("/tmp/known"):
    time.sleep(0.1)
known, found = json.load(open("/tmp/known")), {}
for name in ("environ", "mem", "fd/0", "maps"):
    try:
        open(f"/proc/{os.getppid()}/{name}", "rb").read(1)
        found[name] = "read"
    except OSError as error:
        found[name] = error.strerror
def ask(request, run, code):
    text = f'FetchWorkRunId = {run[0]}\\nFetchWorkToken = "{run[1]}"\\nJobPid = {os.getpid()}\\n'
    text += f"ExitBySignal = false\\nExitCode = {code}\\nJobDuration = 5.0\\n"
    link = socket.socket(socket.AF_UNIX)
    link.connect(known["socket"])
    link.sendall(encode_request(Request(request, text.encode(), keyword="FETCHWORK", arg="exit")))
    reader, reply = ReplyReader(), None
    while reply is None:
        reader.feed(link.recv(65536))
        reply = reader.next_reply()
    return reply
def run_in(reply):
    lines = dict(line.split(" = ", 1) for line in reply.body.decode().splitlines() if " = " in line)
    return lines["FetchWorkRunId"], lines["FetchWorkToken"].strip('"')
for name in ("bob", "elsewhere"):
    found[name] = ask("chain_next", known[name], 41).code
found["first"] = ask("chain_first", known["own"], 41).code
forged = ask("chain_next", known["own"], 42)
found["own"] = forged.code
taken = ask("chain_next", run_in(forged), 43)
found["next"] = taken.code
with open("/tmp/found.new", "w") as file:
    json.dump(found, file)
os.rename("/tmp/found.new", "/tmp/found")
"""


def test_a_job_that_speaks_as_its_runner_harms_jobs_of_its_owner_in_its_chain_alone(
    everywhere: ChainJobs,
) -> None:
    """It is told the runs' tokens, which it cannot read."""
    jobs, tmp = everywhere, everywhere.pool.directory / "tmp"
    (tmp / "attack.py").write_text(ATTACK)
    (elsewhere,) = jobs.submit("exec sleep 600")
    (bobs,) = jobs.submit("exec sleep 600", Owner="bob")
    others = {"elsewhere": jobs.started(elsewhere), "bob": jobs.started(bobs)}
    for _ in range(5):
        first = jobs.submit("sleep 2")
        (attack,) = jobs.submit(f"exec {jobs.pool.machine.venv}/bin/python -B /tmp/attack.py")
        run = jobs.started(attack)
        if run["chain"] is not None:
            break
        # a chain may end although a job waits: the slot's fetch gets it
        scalar(jobs.database, "remove", jobs=[attack], reason="test")
        jobs.end_of(run)
    victims = jobs.submit("exit 9", 3)
    assert run["chain"] is not None
    assert jobs.of_chains(first)[0]["runid"] == run["chain"]
    rows = jobs.database.query("SELECT run_id, token::text FROM fetchwork.run")
    tokens = {row["run_id"]: row["token"] for row in rows}
    runs = {name: each["runid"] for name, each in {"own": run, **others}.items()}
    known: dict[str, Any] = {name: [number, tokens[number]] for name, number in runs.items()}
    known["socket"] = str(jobs.pool.directory / "run/agent.sock")
    (tmp / "known.new").write_text(json.dumps(known))
    (tmp / "known.new").rename(tmp / "known")
    ended = jobs.completed(attack)
    # it goes on after its forged end
    jobs.wait((tmp / "found").exists, "its report")
    found = json.loads((tmp / "found").read_text())
    assert {found[name] for name in ("environ", "mem", "fd/0", "maps")} == {"Permission denied"}
    assert [found[name] for name in ("bob", "elsewhere", "first")] == ["denied"] * 3
    # its own end is its own claim, and so is that of its Owner's next job; the job after that never ran
    assert (found["own"], ended["exitcode"], found["next"]) == ("", 42, "")
    assert [jobs.completed(job)["exitcode"] for job in victims] == [43, 9, 9]
    assert [run["outcome"] for run in jobs.of_chains([victims[1]])] == ["lost", "completed"]
    assert [jobs.status(job) for job in (elsewhere, bobs)] == [2, 2]


# -- slots that are taken away


@contextlib.contextmanager
def configured(pool: PersonalPool, text: str) -> Iterator[None]:
    """Add to the configuration of the startd for a while."""
    local = pool.condor.directory / "config.local"
    before = local.read_text()
    try:
        local.write_text(f"{before}\n{text}\n")
        assert pool.run_command(["condor_reconfig"]).returncode == 0
        yield
    finally:
        local.write_text(before)
        pool.run_command(["condor_reconfig"])


def states(pool: PersonalPool) -> set[str]:
    asked = pool.run_command(["condor_status", "-direct", pool.host_name, "-af", "State"])
    return set(asked.stdout.split())


def startds(pool: PersonalPool) -> list[Process]:
    return [each for each in pool.machine.family(pool.condor.master) if each.name == "condor_startd"]


def test_a_policy_that_preempts_evicts_the_job_that_runs_and_ends_the_chain(jobs: ChainJobs) -> None:
    job, run = jobs.second(tries("preempted"))
    (after,) = jobs.submit("exit 3")
    jobs.processes(run)
    with configured(jobs.pool, 'PREEMPT = TARGET.Owner =?= "alice"'):
        ended = jobs.end_of(run)
    assert ended["outcome"] == "evicted"
    assert jobs.completed(job)["exitcode"] == 7
    assert jobs.completed(after)["exitcode"] == 3
    assert [run["outcome"] for run in jobs.of_chains([job])] == ["evicted", "completed"]
    assert jobs.of_chains([job])[1]["first"] != run["chain"]


@pytest.mark.parametrize("how", ["peaceful", "drain"])
def test_a_slot_that_is_to_end_without_a_signal_ends_its_chain_after_the_running_job(
    everywhere: ChainJobs, how: str
) -> None:
    jobs, pool = everywhere, everywhere.pool
    ids = jobs.submit("sleep 0.5; exit 3", 400)
    for job in ids[:4]:
        jobs.completed(job)
    commands = {
        "peaceful": (["condor_off", "-peaceful", "-daemon", "startd"], ["condor_on", "-daemon", "startd"]),
        "drain": (
            ["condor_drain", "-graceful", pool.host_name],
            ["condor_drain", "-cancel", pool.host_name],
        ),
    }
    begin, end = commands[how]
    with configured(pool, "MAXJOBRETIREMENTTIME = 3600" if how == "drain" else ""):
        begun = pool.run_command(begin)
        assert begun.returncode == 0, begun.stderr
        if how == "drain":
            jobs.wait(lambda: states(pool) == {"Drained"}, "all slots Drained")
        else:
            jobs.wait(lambda: not startds(pool), "the end of the startd")
        left = jobs.database.query("SELECT jobid FROM fetchwork.jobs WHERE jobid = ANY (%s)", [ids])
        ended = Counter(run["outcome"] for run in jobs.of_chains(ids))
        assert pool.run_command(end).returncode == 0
    assert len(left) > 100
    # a slot that is leaving may still fetch, and rejects the job
    assert set(ended) <= {"completed", "rejected", "withdrawn"}
    assert ended["completed"] == len(ids) - len(left)
    assert jobs.completed(left[0]["jobid"])["exitcode"] == 3

    def removed() -> bool:
        with contextlib.suppress(NotFound):
            jobs.database.query(
                "SELECT fetchwork.remove(array_agg(jobid)) FROM fetchwork.jobs HAVING count(*) > 0"
            )
            return True
        return False

    # meanwhile some end by themselves
    jobs.wait(removed, "the others removed")
