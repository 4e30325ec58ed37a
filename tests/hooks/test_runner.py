"""The runner of a chain as a process, beside an agent that hands it jobs: each starts as the first does."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.classad.ads import print_old
from fetchwork.classad.values import ClassAd
from fetchwork.handlers.host.starterlog import fault_of
from fetchwork.handlers.requests.adfiles import SEPARATOR
from fetchwork.hook.spool import Spool
from fetchwork.hook.wire import Reply, Request, encode_reply
from tests.hooks.conftest import Hooks, StandIn
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.parametrize("language", ["compiled"], indirect=True)

#: prints what a process sees of itself
PROBE = """\
import json, os, signal, sys
mask = os.umask(0)
scratch = os.environ["_CONDOR_SCRATCH_DIR"]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({
    "argv": sys.argv[1:], "environ": dict(os.environ), "cwd": os.getcwd(), "umask": mask,
    "fds": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
                  and os.path.exists(f"/proc/self/fd/{fd}")),
    "ignored": status["SigIgn"], "blocked": status["SigBlk"], "sid": os.getsid(0) == os.getpid(),
    "scratch": sorted(os.listdir(scratch)), "beside": sorted(os.listdir(os.path.dirname(scratch))),
    "job_ad": open(scratch + "/.job.ad").read(), "machine_ad": open(scratch + "/.machine.ad").read(),
}))
"""
MACHINE = 'Name = "slot1@host"\n'
TOKEN = "c0ffee00-0000-4000-8000-{:012d}"

#: signals 32 and 33, which no program can set through the C library: a test's environment may ignore them
OF_THE_C_LIBRARY = 3 << 31


def v2(words: list[str]) -> str:
    """Words in HTCondor's V2 syntax, each in single quotes."""
    return " ".join("'" + word.replace("'", "''") + "'" for word in words)


class Runs:
    """A runner, its starter's scratch directory, and an agent with the jobs of one chain."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.scratch = hooks.home / "dir_1"
        self.scratch.mkdir()
        (self.scratch / ".machine.ad").write_text(MACHINE)
        (hooks.home / "probe.py").write_text(PROBE)
        self.jobs: list[dict[str, object]] = []
        self.stand_in: StandIn | None = None
        #: called before an answer, with the connection; True: no answer follows
        self.instead: Callable[[Request, socket.socket], bool] = lambda request, connection: False

    def job(self, cmd: str, *words: str, **more: object) -> Path:
        """Add a job to the chain; return the file of its output."""
        number = len(self.jobs) + 1
        out = self.hooks.home / f"out.{number}"
        self.jobs.append(
            {
                "Cmd": cmd,
                "Arguments": v2(list(words)),
                "Iwd": str(self.hooks.home),
                "Out": str(out),
                "ProcId": number,
                "FetchWorkRunId": number,
                "FetchWorkToken": TOKEN.format(number),
                **more,
            }
        )
        return out

    def probe(self, *words: str, **more: object) -> Path:
        return self.job("/usr/bin/python3", "-IS", str(self.hooks.home / "probe.py"), *words, **more)

    def shell(self, script: str, **more: object) -> Path:
        return self.job("/bin/sh", "-c", script, **more)

    def text(self, number: int) -> bytes:
        """The answer with a job."""
        return (
            print_old(ClassAd(self.jobs[number - 1])).encode() + SEPARATOR + f"ProcId = {number}\n".encode()
        )

    def _behave(self, agent: StandIn, connection: socket.socket) -> None:
        while True:
            request = agent.read(connection)
            if self.instead(request, connection):
                return
            body = b""
            number = next_number(request)
            if number <= len(self.jobs):
                body = self.text(number)
            connection.sendall(encode_reply(Reply(body)))

    def start(self, **more: Any) -> subprocess.Popen[bytes]:
        if self.stand_in is None:
            self.stand_in = self.hooks.agent(self._behave)
        environment = {
            "PATH": "/usr/bin:/bin",
            "_CONDOR_SCRATCH_DIR": str(self.scratch),
            "_CONDOR_SLOT": "slot1",
            "_CONDOR_JOB_AD": f"{self.scratch}/.job.ad",
            "_CONDOR_JOB_IWD": "/",
            "TMPDIR": str(self.scratch),
            "OMP_NUM_THREADS": "1",
            "FETCHWORK_CHAIN": f"1:{TOKEN.format(1)}",
        }
        return subprocess.Popen(
            self.hooks.command("runner"), env=environment, stdin=subprocess.DEVNULL, cwd="/", **more
        )

    def run(self) -> list[Request]:
        """Run the chain to its end; return the requests."""
        assert self.start().wait(PATIENCE_S) == 0
        assert self.stand_in is not None
        return self.stand_in.requests


def next_number(request: Request) -> int:
    """The number of the job that follows a request."""
    ended = int(value(request, "FetchWorkRunId"))
    return 1 if request.name == "chain_first" else ended + 1 if request.arg == "exit" else 10**6


def value(request: Request, name: str) -> str:
    lines = dict(line.split(" = ", 1) for line in request.body.decode().splitlines())
    return lines.get(name, "").strip('"')


def seen(out: Path) -> dict[str, Any]:
    return dict(json.loads(out.read_text()))


@pytest.fixture
def runs(hooks: Hooks) -> Runs:
    return Runs(hooks)


# -- a job's start


def test_arguments_and_environment_arrive_as_they_were_given(runs: Runs) -> None:
    """Blanks, quotes, backslashes, control characters, empty words, UTF-8; nothing reaches the next job."""
    draw = random.Random(5)
    signs = [
        " ",
        "'",
        '"',
        "\\",
        "\t",
        "\n",
        "\r",
        "a",
        "$",
        "caf\xe9",
        "\x01",
        "%",
        "=",
        "''",
        '\\"',
        "\\n",
        "\\1",
    ]
    cases = []
    for number in range(60):
        words = ["".join(draw.choices(signs, k=draw.randint(0, 6))) for _ in range(draw.randint(0, 5))]
        own = {f"OWN_{number}_{at}": "".join(draw.choices(signs, k=draw.randint(0, 6))) for at in range(3)}
        environment = v2([f"{name}={text}" for name, text in own.items()])
        cases.append((words, own, runs.probe(*words, Environment=environment)))
    runs.run()
    for words, own, out in cases:
        found = seen(out)
        assert found["argv"] == words
        assert {name: text for name, text in found["environ"].items() if name.startswith("OWN")} == own


def test_arguments_in_the_old_syntax_are_split_at_blanks_alone(runs: Runs) -> None:
    """As condor_submit writes most of them."""
    probe = runs.hooks.home / "probe.py"
    old = runs.job("/usr/bin/python3", Args=f"-IS {probe}  a 'b c' \"d\" \te")
    del runs.jobs[-1]["Arguments"]
    both = runs.probe("V2", Args="not these")
    runs.run()
    assert seen(old)["argv"] == ["a", "'b", "c'", '"d"', "e"]
    assert seen(both)["argv"] == ["V2"]


def test_words_are_split_as_htcondor_splits_them(runs: Runs) -> None:
    given = "one  two\t'three  3' fo'u'r 'it''s' '' a\"b c\\d"
    out = runs.probe()
    runs.jobs[-1]["Arguments"] += " " + given  # type: ignore[operator]
    runs.run()
    assert seen(out)["argv"] == ["one", "two", "three  3", "four", "it's", "", 'a"b', "c\\d"]


def test_a_job_starts_as_below_a_starter_of_its_own(runs: Runs) -> None:
    iwd = runs.hooks.home / "iwd"
    iwd.mkdir()
    first = runs.probe(Environment=v2(["A=1", "OMP_NUM_THREADS=7", "_CONDOR_SLOT=other", "A=2"]))
    second = runs.probe(Iwd=str(iwd), Out="here", Err="here")
    process = runs.start(umask=0o027)
    assert process.wait(PATIENCE_S) == 0
    job = str(runs.scratch / "job")
    one, two = seen(first), seen(iwd / "here")
    assert (one["environ"]["A"], one["environ"]["OMP_NUM_THREADS"]) == ("2", "7")
    assert "A" not in two["environ"]
    assert two["environ"]["OMP_NUM_THREADS"] == "1"
    assert two["cwd"] == str(iwd)
    assert not second.exists()
    for number, found in enumerate((one, two), 1):
        environment = found["environ"]
        assert environment["_CONDOR_SCRATCH_DIR"] == environment["TMPDIR"] == job
        assert environment["_CONDOR_JOB_AD"] == f"{job}/.job.ad"
        assert environment["_CONDOR_JOB_IWD"] == found["cwd"]
        assert environment["_CONDOR_SLOT"] == "slot1"
        assert not any(name.startswith("FETCHWORK") for name in environment)
        assert found["umask"] == 0o027
        assert found["fds"] == []
        # Python itself ignores SIGPIPE and SIGXFSZ
        assert int(found["ignored"], 16) & ~(1 << 12 | 1 << 24 | OF_THE_C_LIBRARY) == 0
        assert int(found["blocked"], 16) == 0
        assert found["sid"]
        assert found["scratch"] == [".job.ad", ".machine.ad"]
        assert found["beside"] == [".machine.ad", "job"]
        assert (found["job_ad"], found["machine_ad"]) == (f"ProcId = {number}\n", MACHINE)


def test_signals_are_at_their_defaults(runs: Runs) -> None:
    out = runs.job("/bin/grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")
    runs.run()
    masks = [int(line.split()[1], 16) for line in out.read_text().splitlines()]
    assert [mask & ~OF_THE_C_LIBRARY for mask in masks] == [0, 0]


def test_output_and_error_may_be_one_file(runs: Runs) -> None:
    out = runs.shell("echo one; echo two >&2; echo three", Err=str(runs.hooks.home / "out.1"))
    runs.run()
    assert out.read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("fault", "code", "number"),
    [
        ({"Cmd": "/nonexistent/program"}, 6, 2),
        ({"Cmd": "/etc/passwd"}, 6, 13),
        ({"Cmd": "/etc", "Arguments": "'a b' ''"}, 6, 13),
        ({"Out": "/nonexistent/out"}, 7, 2),
        ({"Err": "/etc"}, 7, 21),
        ({"In": "missing"}, 8, 2),
        ({"Iwd": "/nonexistent/\xe9\n"}, 14, 2),
        ({"Iwd": "/etc/passwd"}, 14, 20),
    ],
)
def test_a_job_that_cannot_start_is_told_with_its_fault_and_the_chain_goes_on(
    runs: Runs, fault: dict[str, object], code: int, number: int
) -> None:
    runs.job("/bin/true", **fault)
    out = runs.shell("echo next")
    _, told, _ = runs.run()
    found = fault_of(told.check)
    assert (found.code, found.subcode) == (code, number)
    assert value(told, "JobPid") == ""
    assert out.read_text() == "next\n"


# -- a job's end


def test_ends_are_told(runs: Runs) -> None:
    codes, signals = (0, 1, 77, 128, 255), (signal.SIGKILL, signal.SIGTERM, signal.SIGUSR2)
    for code in codes:
        runs.shell(f"exit {code}")
    for number in signals:
        runs.shell(f"kill -{int(number)} $$")
    first, *ends = runs.run()
    assert (first.name, first.keyword, first.slot) == ("chain_first", "FW", "slot1")
    assert {(end.name, end.arg, end.slot, end.check) for end in ends} == {("chain_next", "exit", "slot1", "")}
    assert all(0 < end.deadline_ms <= 20_000 for end in ends)
    expected = [(str(code), "", "false") for code in codes] + [("", str(int(one)), "true") for one in signals]
    assert [
        tuple(value(end, name) for name in ("ExitCode", "ExitSignal", "ExitBySignal")) for end in ends
    ] == expected
    assert [value(end, "FetchWorkToken") for end in ends] == [TOKEN.format(n + 1) for n in range(len(ends))]


def test_use_is_that_of_the_job_and_of_what_it_has_started(runs: Runs) -> None:
    # a process that the job does not wait for counts too
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    runs.shell(f"({burn}) & {burn}; sleep 0.2; exit 0")
    runs.job("/usr/bin/python3", "-c", "x = b'x' * 100_000_000")
    runs.job("/bin/true")
    # the runner is the parent of a process that ends before the job, which does not wait for it
    takes = 'x = b"x" * 100_000_000; sum(range(100_000_000)); open("done", "w")'
    runs.shell(f"(python3 -c '{takes}' &); until [ -e done ]; do sleep 0.2; done; sleep 0.2")
    _, busy, large, small, adopted = runs.run()
    assert float(value(adopted, "RemoteUserCpu")) > 0.2
    assert int(value(adopted, "ResidentSetSize")) > 95_000
    assert float(value(busy, "RemoteUserCpu")) > 0.02
    assert float(value(busy, "JobDuration")) >= 0.2
    assert int(value(large, "ResidentSetSize")) > 95_000
    assert int(value(small, "ResidentSetSize")) < 80_000
    assert abs(int(value(small, "JobStartDate")) - time.time()) < PATIENCE_S


LEFT_FILES = {
    "files": "cd $S; echo x > a; mkdir -p d/e; echo x > d/e/f; mkfifo pipe; ln -s /etc link; touch ../beside",
    "closed directories": "cd $S; mkdir -p d/e/g; echo x > d/e/f; chmod 0 d/e/g; chmod 500 d/e; chmod 100 d",
    "a deep tree": "cd $S; i=0; while [ $i -lt 700 ]; do mkdir deeper; cd deeper; i=$((i+1)); done",
    "links for directories": "ln -s $V $S/link; ln -s $V $S/../link; rm -r $S; ln -s $V $S",
    "no directory": "rm -r $S",
    "a file for the directory": "rm -r $S; echo x > $S",
    "a closed directory": "chmod 0 $S",
    "a pipe for the ad": "rm $S/.job.ad $S/.machine.ad; mkfifo $S/.job.ad $S/.machine.ad",
    "directories for the ads": "rm $S/.job.ad $S/.machine.ad; mkdir -p $S/.job.ad/x $S/.machine.ad/x",
    "links for the ads": "ln -sf $V/kept $S/.job.ad; ln -sf $V/kept $S/.machine.ad",
    "a hard link": "ln -f $V/kept $S/.job.ad",
    "other machine": "touch -r $S/.machine.ad $S/t; echo X=1 > $S/.machine.ad; touch -r $S/t $S/.machine.ad",
}


@pytest.mark.parametrize("left", LEFT_FILES)
def test_no_file_is_left_for_the_next_job(runs: Runs, left: str, as_nobody: dict[str, Any]) -> None:
    """The next job has a new directory, and nothing outside is touched."""
    valuable = runs.hooks.home / "valuable"
    valuable.mkdir()
    (valuable / "kept").write_text("kept")
    if as_nobody:
        for path in (runs.hooks.home, runs.scratch, valuable, valuable / "kept"):
            shutil.chown(path, "nobody")
    runs.shell(f"S=$_CONDOR_SCRATCH_DIR; V={valuable}; {LEFT_FILES[left]}")
    out = runs.probe()
    assert runs.start(**as_nobody).wait(PATIENCE_S) == 0
    found = seen(out)
    assert found["scratch"] == [".job.ad", ".machine.ad"]
    assert found["beside"] == [".machine.ad", "job"]
    assert (found["job_ad"], found["machine_ad"]) == ("ProcId = 2\n", MACHINE)
    assert (valuable / "kept").read_text() == "kept"


LEFT_PROCESSES = {
    "background": "sleep 331 & sleep 331 &",
    "other session": "(setsid sleep 331 &) & wait",
    "ignores signals": "trap '' TERM HUP INT; (setsid sh -c 'sleep 331; sleep 331' &)",
    "stopped": "sleep 331 & kill -STOP $!",
    "many": "i=0; while [ $i -lt 300 ]; do sleep 331 & i=$((i+1)); done",
    "forking": "n=0; f() { n=$((n+1)); [ $n -lt 7 ] && { f & f & }; sleep 331; }; f & f & exit 0",
}


@pytest.mark.parametrize("left", LEFT_PROCESSES)
def test_no_process_is_left_for_the_next_job(runs: Runs, left: str) -> None:
    runs.shell(f"{LEFT_PROCESSES[left]}")
    out = runs.shell("ps -eo pid=,stat=,args= | grep '[s]leep 331' || echo none")
    ends = runs.run()[1:]
    assert out.read_text() == "none\n"
    assert [end.arg for end in ends] == ["exit", "exit"]


# -- the end of a chain


@pytest.mark.parametrize(
    ("kill_sig", "number"), [(None, 15), ("SIGUSR1", 10), ("usr2", 12), ("2", 2), (3, 3), ("SIGNONSENSE", 15)]
)
def test_an_evicted_job_gets_its_own_signal(runs: Runs, kill_sig: object, number: int) -> None:
    more = {} if kill_sig is None else {"KillSig": kill_sig}
    names = {2: "INT", 3: "QUIT", 10: "USR1", 12: "USR2", 15: "TERM"}
    traps = "; ".join(f"trap 'echo {one}; exit {one}' {name}" for one, name in names.items())
    out = runs.shell(f"{traps}; echo ready; while :; do sleep 0.05; done", **more)
    runs.shell("echo next")
    process = runs.start()
    until(lambda: out.exists() and out.read_text() == "ready\n")
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    assert out.read_text() == f"ready\n{number}\n"
    assert runs.stand_in is not None
    _, end = runs.stand_in.requests
    assert (end.arg, value(end, "ExitCode")) == ("evict", str(number))


def test_an_eviction_between_two_jobs_starts_no_further_job(runs: Runs) -> None:
    """The next job is the runner's already: it is told as evicted, without a process."""
    runs.shell("exit 4")
    out = runs.shell("echo next")
    processes: list[subprocess.Popen[bytes]] = []

    def evicts(request: Request, connection: socket.socket) -> bool:
        if request.name == "chain_next":
            processes[0].terminate()
        return False

    runs.instead = evicts
    processes.append(runs.start())
    assert processes[0].wait(PATIENCE_S) == 0
    assert runs.stand_in is not None
    _, end, next_end = runs.stand_in.requests
    assert (end.arg, value(end, "ExitCode")) == ("exit", "4")
    assert (next_end.arg, value(next_end, "FetchWorkRunId")) == ("evict", "2")
    assert value(next_end, "JobPid") == str(processes[0].pid)
    assert b"ExitCode" not in next_end.body
    assert not out.exists()


def test_a_job_that_ended_before_the_eviction_has_ended_by_itself(runs: Runs) -> None:
    out = runs.shell("echo $$; read line < go; exit 3")
    runs.shell("echo next")
    os.mkfifo(runs.hooks.home / "go")
    process = runs.start()
    until(lambda: out.exists() and out.read_text().endswith("\n"))
    process.send_signal(signal.SIGSTOP)
    (runs.hooks.home / "go").write_text("\n")
    status = Path("/proc") / out.read_text().strip() / "status"
    until(lambda: "State:\tZ" in status.read_text())
    process.terminate()
    process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENCE_S) == 0
    assert runs.stand_in is not None
    _, end = runs.stand_in.requests
    # by JOB_EXIT: no further job is asked for
    assert (end.name, end.arg, value(end, "ExitCode")) == ("job_exit", "exit", "3")


# -- the agent


def test_a_first_job_that_the_agent_does_not_hand_over_waits_again(runs: Runs) -> None:
    def refuses(request: Request, connection: socket.socket) -> bool:
        code = "denied" if request.name == "chain_first" else ""
        connection.sendall(encode_reply(Reply(code=code, message=code)))
        return True

    runs.instead = refuses
    out = runs.shell("echo ready")
    assert runs.start(stderr=subprocess.DEVNULL).wait(PATIENCE_S) == 0
    assert runs.stand_in is not None
    _, end = runs.stand_in.requests
    assert (end.name, end.arg, value(end, "FetchWorkToken")) == ("job_exit", "evict", TOKEN.format(1))
    assert b"JobPid = " in end.body
    assert not out.exists()


def test_a_broken_connection_repeats_the_request(runs: Runs) -> None:
    outs = [runs.shell("echo $$") for _ in range(4)]
    broken: set[str] = set()

    def breaks(request: Request, connection: socket.socket) -> bool:
        key = f"{request.name} {value(request, 'FetchWorkRunId')}"
        if key in broken:
            return False
        broken.add(key)
        if len(broken) % 2:
            connection.sendall(encode_reply(Reply(runs.text(1)))[:60])
        return True

    runs.instead = breaks
    requests = runs.run()
    assert all(out.read_text().count("\n") == 1 for out in outs)
    keys = [(request.name, value(request, "FetchWorkRunId")) for request in requests]
    first = [("chain_first", "1"), *(("chain_next", str(n)) for n in range(1, 5))]
    assert keys == [key for key in first for _ in range(2)]


def gone(runs: Runs, connection: socket.socket) -> None:
    runs.hooks.socket.unlink()


def nonsense(runs: Runs, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")


def without_database(runs: Runs, connection: socket.socket) -> None:
    connection.sendall(encode_reply(Reply(code="unavailable", message="no database")))


def older(runs: Runs, connection: socket.socket) -> None:
    connection.sendall(encode_reply(Reply(code="unknown_request", message="chain_next")))


@pytest.mark.parametrize("behave", [gone, nonsense, without_database, older])
@pytest.mark.parametrize("evicted", [False, True])
def test_an_end_that_cannot_be_told_is_spooled_by_job_exit(
    runs: Runs, behave: Callable[[Runs, socket.socket], None], evicted: bool
) -> None:
    runs.hooks.configure(deadline_s=2, job_exit_deadline_s=2)
    out = runs.shell("echo ready; while :; do sleep 0.05; done" if evicted else "echo ready; exit 9")

    def instead(request: Request, connection: socket.socket) -> bool:
        if request.name == "chain_first":
            return False
        behave(runs, connection)
        return True

    runs.instead = instead
    process = runs.start()
    if evicted:
        until(lambda: out.exists() and out.read_text() == "ready\n")
        process.terminate()
    assert process.wait(PATIENCE_S) == 0
    [report] = Spool(str(runs.hooks.spool)).read().reports
    request = report.request
    assert (request.name, request.arg) == ("job_exit", "evict" if evicted else "exit")
    assert value(request, "FetchWorkToken") == TOKEN.format(1)
    assert value(request, "ExitSignal" if evicted else "ExitCode") == ("15" if evicted else "9")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 5000,
        b"Cmd",
        b"Cmd = \n",
        b'Cmd = "',
        b'Cmd = "\\',
        b'Arguments = eval("\\"\\377\\777\\',
        b"=" * 9000,
        b'Arguments = "' + b"a " * 500_000 + b'"\n',
        b"A" * 8_000_000,
        b"\n" * 100_000 + SEPARATOR * 20,
    ],
)
def test_hostile_answers_start_nothing_and_hang_nothing(runs: Runs, body: bytes) -> None:
    def instead(request: Request, connection: socket.socket) -> bool:
        connection.sendall(encode_reply(Reply(body if request.name == "chain_first" else b"")))
        return True

    runs.instead = instead
    process = runs.start(stderr=subprocess.PIPE)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), said
    assert said.count(b"\n") <= 1, said


def test_a_program_that_no_starter_has_started_says_so(runs: Runs) -> None:
    done = subprocess.run(runs.hooks.command("runner"), env={}, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert done.stderr == b"fetchwork runner: runs below condor_starter only: no FETCHWORK_CHAIN\n"


# -- hostile jobs


def test_a_job_can_read_neither_the_memory_nor_the_environment_of_its_runner(
    runs: Runs, as_nobody: dict[str, Any]
) -> None:
    if not as_nobody:
        pytest.skip("root may read every process")
    for path in (runs.hooks.home, runs.scratch):
        shutil.chown(path, "nobody")
    parts = " ".join(f"/proc/$PPID/{part}" for part in ("environ", "mem", "maps", "fd/3", "exe"))
    out = runs.shell(
        f"for part in {parts}; do (: < $part) 2>/dev/null && echo $part; done; id -u; ls /proc/$PPID/fd"
    )
    assert runs.start(**as_nobody, stderr=subprocess.DEVNULL).wait(PATIENCE_S) == 0
    assert out.read_text() == "65534\n"
