"""What a hook does when the agent is not there, is deaf, slow, mad, or dies: never hang, never talk much."""

import os
import signal
import socket
import subprocess
import time
from typing import Any

import pytest

from fetchwork.hook.spool import Spool
from fetchwork.hook.wire import HOOKS, Reply
from tests.hooks.conftest import Behave, Done, Hooks, StandIn, StartAgent
from tests.waiting import PATIENCE_S

from .conftest import ADS

JOB = (ADS / "25.14.1-job_exit-exit-code3.ad").read_bytes()
# a hook with a deadline of 1 or 2 s ends before this on a busy machine too; default deadlines are longer
BOUND_S = 9
ARGS = {"job_exit": ["exit"], "reply_fetch": ["accept"]}


def absent(agent: StandIn, connection: socket.socket) -> None:
    raise AssertionError("is not started")


def deaf(agent: StandIn, connection: socket.socket) -> None:
    agent.over.wait(20)


def takes_and_is_silent(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    agent.over.wait(20)


def trickles(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    for byte in b"fetchwork/1 ok\nlength: 100000\n\n" + b"x" * 1000:
        if agent.over.wait(0.1):
            return
        connection.sendall(bytes([byte]))


def answers_nonsense(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def breaks_off(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    connection.sendall(b"fetchwork/1 ok\nlength: 100\n\nCmd = 1")


def dies(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)


def dies_at_once(agent: StandIn, connection: socket.socket) -> None:
    connection.recv(1)


def floods(agent: StandIn, connection: socket.socket) -> None:
    agent.read(connection)
    while not agent.over.is_set():
        connection.sendall(b"x" * 65536)


BEHAVIOURS = [
    absent,
    deaf,
    takes_and_is_silent,
    trickles,
    answers_nonsense,
    breaks_off,
    dies,
    dies_at_once,
    floods,
]


#: all hooks have one client: of the others' behaviours `make test` has one
ALL_BEHAVIOURS_OF = ("fetch_work", "job_exit")


def cases() -> list[Any]:
    """Each hook with each behaviour."""
    return [
        pytest.param(
            name,
            behave,
            id=f"{name}-{behave.__name__}",
            marks=[] if name in ALL_BEHAVIOURS_OF or behave is deaf else pytest.mark.all,
        )
        for name in HOOKS
        for behave in BEHAVIOURS
    ]


def check_outcome(name: str, done: Done) -> None:
    """What HTCondor reads from a hook that had no answer."""
    if name == "fetch_work":
        assert (done.returncode, done.stdout) == (0, b"")
    elif name == "prepare_job":
        assert done.returncode == 1
        code, message = done.stdout.decode().splitlines()
        assert code == "HookStatusCode = 350"
        assert message.startswith('HookStatusMessage = "fetchwork: ')
    elif name == "job_exit":
        assert (done.returncode, done.stdout) == (0, b"")
    else:
        assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"fetchwork {name}: ".encode())


@pytest.mark.parametrize(("name", "behave"), cases())
def test_no_answer_is_told_in_time_and_in_the_direction_that_htcondor_reads(
    hooks: Hooks, agent: StartAgent, name: str, behave: Behave
) -> None:
    hooks.configure(deadline_s=1)
    if behave is not absent:
        agent(behave)
    begun = time.time()
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    check_outcome(name, done)
    assert done.seconds < BOUND_S
    reports = Spool(str(hooks.spool)).read().reports
    if name == "job_exit":
        [report] = reports
        assert (report.uid, report.request.body, report.request.arg) == (os.geteuid(), JOB, "exit")
        assert begun - 1 <= report.request.written <= time.time() + 1
    else:
        assert reports == []


@pytest.mark.parametrize("code", ["unavailable", "failed", "unknown_request", "denied", "bad_request"])
@pytest.mark.parametrize("name", HOOKS)
def test_an_error_of_the_agent_is_no_answer(hooks: Hooks, agent: StartAgent, name: str, code: str) -> None:
    agent(Reply(code=code, message="something is wrong"))
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    assert b"something is wrong" in done.stderr
    if name == "job_exit" and code in ("denied", "bad_request"):
        # the same report would be refused again
        assert done.returncode == 1
        assert os.listdir(hooks.spool) == []
    else:
        check_outcome(name, done)


def test_a_full_queue_of_connections_is_waited_for_and_given_up(hooks: Hooks) -> None:
    import socket

    hooks.configure(deadline_s=1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(hooks.socket))
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(str(hooks.socket))
            except BlockingIOError:
                break
        done = hooks.run("fetch_work")
        for one in waiting:
            one.close()
    check_outcome("fetch_work", done)
    assert 0.9 < done.seconds < BOUND_S


# -- stdin and stdout


@pytest.mark.parametrize("name", ["fetch_work", "prepare_job", "update_job_info"])
def test_a_stdin_that_never_ends_is_given_up(hooks: Hooks, name: str) -> None:
    hooks.configure(deadline_s=1)
    with subprocess.Popen(
        hooks.command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b"a = 1\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_S) == (0 if name == "fetch_work" else 1)
        assert process.stderr.read() == f"fetchwork {name}: stdin does not end\n".encode()


def test_a_stdin_without_bound_is_given_up(hooks: Hooks) -> None:
    with open("/dev/zero", "rb") as zero:
        run = subprocess.run(
            hooks.command("update_job_info"), stdin=zero, capture_output=True, timeout=PATIENCE_S
        )
    assert run.returncode == 1
    assert run.stderr == b"fetchwork update_job_info: stdin is larger than 16777216 bytes\n"


def test_a_stdout_that_nobody_reads_is_given_up(hooks: Hooks, agent: StartAgent) -> None:
    # on a busy machine the answer takes its time, and must be there before the deadline
    hooks.configure(deadline_s=4)
    agent(Reply(b"x" * 1_000_000))
    with subprocess.Popen(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b"fetchwork fetch_work: stdout is not read\n"


def test_a_closed_stdout_is_no_traceback(hooks: Hooks, agent: StartAgent) -> None:
    agent(Reply(b"x" * 1_000_000))
    with subprocess.Popen(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b"fetchwork fetch_work: cannot write stdout: Broken pipe\n"


def test_a_stderr_that_nobody_reads_does_not_hold_a_hook_up(hooks: Hooks) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    run = subprocess.run(
        hooks.command("fetch_work"), stdin=subprocess.DEVNULL, stderr=write, timeout=PATIENCE_S
    )
    assert run.returncode == 0
    os.close(read)
    os.close(write)


# -- hook.conf


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("socket = /x\n", "has no 'keyword = ...'"),
        ("keyword = FW\n", "has no 'socket = ...'"),
        ("keyword = FW\nsocket = /x\ndeadline_s = soon\n", "deadline_s is 'soon'; allowed are 1 to 86400"),
        (None, "no hook.conf in '"),
    ],
)
def test_a_bad_hook_conf_is_named(hooks: Hooks, text: str | None, message: str) -> None:
    file = hooks.directory / "hook.conf"
    file.unlink() if text is None else file.write_text(text)
    done = hooks.run("prepare_job", stdin=JOB)
    check_outcome("prepare_job", done)
    assert message.encode() in done.stderr


def test_only_fetch_work_may_wait_longer_than_by_default(hooks: Hooks, agent: StartAgent) -> None:
    hooks.configure(deadline_s=500)
    stand_in = agent(Reply())
    hooks.run("fetch_work")
    hooks.run("job_exit", "exit", stdin=JOB)
    fetch, report = stand_in.requests
    assert 400_000 < fetch.deadline_ms <= 500_000
    assert report.deadline_ms <= 20_000


def test_job_exit_has_a_deadline_of_its_own(hooks: Hooks, agent: StartAgent) -> None:
    hooks.configure(deadline_s=500, job_exit_deadline_s=6)
    stand_in = agent(Reply())
    hooks.run("job_exit", "exit", stdin=JOB)
    assert stand_in.requests[0].deadline_ms <= 6000


# -- direct mode

RECORD = """
echo "$@" > "$0.args"; cat > "$0.stdin"; env > "$0.env"
"""


def recorded(hooks: Hooks, what: str) -> str:
    return (hooks.home / f"direct.{what}").read_text()


@pytest.mark.parametrize("name", HOOKS)
def test_without_an_agent_direct_mode_does_the_work(hooks: Hooks, name: str) -> None:
    hooks.direct(RECORD + "echo 'x = 1'; echo remark >&2; exit 0")
    args = ARGS.get(name, [])
    done = hooks.run(
        name,
        *args,
        stdin=JOB,
        env={
            "_CONDOR_SLOT": "slot1_2",
            "PATH": "/bin",
            "CONDOR_PRIVATE_INHERIT": "key",
            "CONDOR_INHERIT": "key",
        },
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"x = 1\n", b"remark\n")
    assert recorded(hooks, "args").split() == ["-I", "-m", "fetchwork", "hook", name, *args]
    assert recorded(hooks, "stdin").encode() == JOB
    env = dict(line.split("=", 1) for line in recorded(hooks, "env").splitlines())
    assert env["FETCHWORK_DIRECT_CONFIG"] == "/dev/null"
    assert (env["FETCHWORK_KEYWORD"], env["FETCHWORK_SLOT"]) == ("FW", "slot1_2")
    assert 4000 < int(env["FETCHWORK_DEADLINE_MS"]) <= 75000
    assert "key" not in env.values()


def test_direct_mode_is_told_what_the_checks_found(hooks: Hooks) -> None:
    hooks.direct(RECORD + "exit 1")
    assert hooks.run("prepare_job", stdin=b'Cmd = "/no/such"\n').returncode == 1
    problem = "Failed to execute '/no/such': (errno=2: 'No such file or directory')"
    assert f"FETCHWORK_CHECK={problem}\n" in recorded(hooks, "env")


@pytest.mark.parametrize(
    ("slot", "asks"),
    [
        ("static-unclaimed", True),
        ("static-claimed-idle", True),
        ("static-claimed-busy", False),
        ("static-claimed-suspended", False),
    ],
)
def test_without_an_agent_no_direct_mode_asks_for_a_slot_whose_job_runs(
    hooks: Hooks, slot: str, asks: bool
) -> None:
    hooks.direct('echo direct > "$0.ran"')
    done = hooks.run("fetch_work", stdin=(ADS / f"25.14.1-fetch_work-{slot}.ad").read_bytes())
    assert (done.returncode, done.stdout) == (0, b"")
    assert (hooks.home / "direct.ran").exists() is asks


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("behave", [takes_and_is_silent, dies], ids=lambda behave: behave.__name__)
def test_after_a_lost_answer_all_but_fetch_work_go_direct(
    hooks: Hooks, agent: StartAgent, name: str, behave: Any
) -> None:
    # direct mode is a program, which on a busy machine takes its time in what a silent agent leaves of this:
    # half; JOB_EXIT keeps a second of that for the spool
    silent_s = 12 if name == "job_exit" else 8
    hooks.direct('echo direct > "$0.ran"', deadline_s=silent_s if behave is takes_and_is_silent else 20)
    agent(behave)
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    assert done.returncode == 0
    # the agent may have claimed a job for this fetch: a second one would be claimed
    assert (hooks.home / "direct.ran").exists() is (name != "fetch_work")


@pytest.mark.parametrize("name", HOOKS)
def test_a_direct_mode_that_hangs_is_ended(hooks: Hooks, name: str) -> None:
    hooks.direct("exec sleep 60", deadline_s=2)

    def nuisance() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        signal.signal(signal.SIGALRM, signal.SIG_IGN)

    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB, preexec_fn=nuisance)
    assert done.seconds < BOUND_S
    if name == "job_exit":
        check_outcome(name, done)
        assert len(Spool(str(hooks.spool)).read().reports) == 1
    else:
        assert (done.returncode, done.stdout) == (-signal.SIGALRM, b"")


@pytest.mark.parametrize("script", ["exit 1", "kill -9 $$"])
def test_a_report_that_direct_mode_can_not_give_goes_to_the_spool(hooks: Hooks, script: str) -> None:
    hooks.direct(script)
    done = hooks.run("job_exit", "exit", stdin=JOB)
    check_outcome("job_exit", done)
    assert b"direct mode failed with status" in done.stderr
    assert len(Spool(str(hooks.spool)).read().reports) == 1


@pytest.mark.parametrize("name", HOOKS)
def test_an_interpreter_that_is_not_there_is_named(hooks: Hooks, name: str) -> None:
    hooks.configure(direct_python="/no/such", direct_config="/dev/null")
    done = hooks.run(name, *ARGS.get(name, []), stdin=JOB)
    check_outcome(name, done)
    assert b"cannot start '/no/such' for direct mode: No such file" in done.stderr


def test_a_host_file_closed_to_the_jobs_user_means_no_direct_mode(
    hooks: Hooks, as_nobody: dict[str, Any]
) -> None:
    hooks.direct("exit 0")
    config = hooks.home / "host.toml"
    config.write_text("password")
    config.chmod(0o000)
    hooks.configure(direct_python=hooks.home / "direct", direct_config=config)
    if not as_nobody:
        pytest.skip("needs root, to be another account")
    check_outcome("prepare_job", hooks.run("prepare_job", stdin=JOB, **as_nobody))


# -- the spool


def test_a_spool_that_takes_nothing_is_named(hooks: Hooks, as_nobody: dict[str, Any]) -> None:
    hooks.spool.chmod(0o700)
    if not as_nobody:
        pytest.skip("needs root, to be another account")
    done = hooks.run("job_exit", "exit", stdin=JOB, **as_nobody)
    assert done.returncode == 1
    assert f"cannot write a report to spool '{hooks.spool}': Permission denied".encode() in done.stderr


def test_the_jobs_user_leaves_its_report_under_its_own_name(hooks: Hooks, as_nobody: dict[str, Any]) -> None:
    done = hooks.run("job_exit", "evict", stdin=JOB, **as_nobody)
    assert done.returncode == 0
    [report] = Spool(str(hooks.spool)).read().reports
    assert report.uid == (65534 if as_nobody else os.geteuid())
    assert report.request.arg == "evict"


# -- secrets


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("behave", [absent, answers_nonsense], ids=lambda behave: behave.__name__)
def test_no_token_and_no_environment_is_ever_printed(
    hooks: Hooks, agent: StartAgent, name: str, behave: Any
) -> None:
    hooks.configure(deadline_s=1)
    if behave is not absent:
        agent(behave)
    stdin = b'FetchWorkToken = "s3cret"\nClaimId = "s3cret"\nJobPid = 1\nbad line s3cret\n'
    done = hooks.run(name, *ARGS.get(name, []), stdin=stdin, env={"CONDOR_PRIVATE_INHERIT": "s3cret"})
    assert b"s3cret" not in done.stdout + done.stderr
