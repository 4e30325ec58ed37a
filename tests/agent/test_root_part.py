"""The agent's privileged part, and a compromised agent that uses it."""

import contextlib
import errno
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.root import privilegedpart
from fetchwork.process import Process, family
from tests.support.small_disk import fill
from tests.support.there import there
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

AGENT, USER, STRANGER = "nobody", "daemon", "bin"
UID, OTHER = pwd.getpwnam(USER).pw_uid, pwd.getpwnam(STRANGER).pw_uid
# as an agent does: splits, and sends the requests that it reads; each line is answered with [errno, content]
DRIVER = """
import json, os, sys
from pathlib import Path
from fetchwork.agent.root import privilegedclient, privilegedpart
privilegedpart.TIME_S = privilegedclient.ANSWER_S = 600.0
part = privilegedpart.split(sys.argv[1])
status = Path("/proc/self/status").read_text()
facts = [part.pid, os.getresuid(), os.getgroups(), status, os.environ["HOME"]]
try:
    os.setuid(0)
except OSError:
    facts.append("refused")
print(json.dumps(facts), flush=True)
for line in sys.stdin:
    try:
        fd = part._ask(json.loads(line).encode("latin-1"))
        answer = [0, None if fd is None else os.read(fd, 100).decode()]
        if fd is not None:
            os.close(fd)
    except OSError as error:
        answer = [error.errno, None]
    print(json.dumps(answer), flush=True)
"""
SLEEP = ["sleep", "600"]


@pytest.fixture
def tmp_path(public_directory: Callable[[], Path]) -> Path:
    """Every account may enter the test's directory, even while another pytest changes its own."""
    return public_directory()


class Agent:
    """An agent that has split and sends the test's requests."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, AGENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SECRET": "x"},
        )
        self.facts = self._read()
        self.root_part = int(self.facts[0])

    def _read(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, request: str | bytes) -> int:
        """The error number of a request's answer, 0 if it succeeded."""
        return int(self.ask_all([request])[0][0])

    def ask_all(self, requests: list[str | bytes]) -> list[tuple[int, str | None]]:
        """Send several requests, one behind the other."""
        assert self.process.stdin is not None
        answers = []
        for request in requests:
            data = request.encode() if isinstance(request, str) else request
            print(json.dumps(data.decode("latin-1")), file=self.process.stdin, flush=True)
            answers.append(tuple(self._read()))
        return answers

    def signal(self, process: Process, number: int = signal.SIGKILL, **other: int) -> int:
        """Ask for a signal; ``other`` overrides facts with false ones."""
        said = {"pid": process.pid, "start": process.start_ticks, "uid": UID, **other}
        return self.ask(f"signal {said['pid']} {said['start']} {said['uid']} {number} {said.get('group', 0)}")

    def output(self, process: Process, stream: int = 1, **other: int) -> tuple[int, str | None]:
        """The error number of opening a process's output file, and its content."""
        said = {"pid": process.pid, "start": process.start_ticks, "uid": UID, **other}
        return self.ask_all([f"output {said['pid']} {said['start']} {said['uid']} {stream}"])[0]

    def open(self, path: Path | str, uid: int = UID) -> tuple[int, str | None]:
        """The error number of opening a file, and its content."""
        return self.ask_all([f"open {uid} {path}"])[0]


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.process.kill()
    agent.process.communicate()


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process of an account, under a starter of root's or of that account."""
    started = []
    directory = tmp_path / "starter"
    directory.mkdir()
    script = directory / "condor_starter"
    script.write_text('#!/bin/sh\n"$@" &\necho $!\nwait\n')
    script.chmod(0o755)

    def start(
        command: list[str] = SLEEP, *, account: str = USER, starter: str = "root", marked: bool = False
    ) -> Process:
        as_user = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", "--"]
        lines: dict[str, list[object]] = {
            "root": [script, *as_user, *command],
            "none": [*as_user, "sh", "-c", '"$@" & echo $!; wait', "sh", *command],
            "own": [*as_user, script, *command],
        }
        process = subprocess.Popen(
            [str(word) for word in lines[starter]],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={"PATH": os.environ["PATH"], **({"_CONDOR_SCRATCH_DIR": "/x"} if marked else {})},
        )
        started.append(process)
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        # not before it has become the command: until then its account is another one
        until(lambda: (Process.find(pid) or sys.exit()).command == command)
        return there(Process.find(pid))

    yield start
    for process in started:
        found = Process.find(process.pid)
        for one in family(found) if found is not None else ():
            one.signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A directory of the account, with a file and a subdirectory that the account cannot read."""
    directory = tmp_path / "scratch"
    (directory / "hidden").mkdir(parents=True)
    for file in (directory / "file", directory / "hidden/file"):
        file.write_bytes(os.urandom(64 * 1024))
    (directory / "hidden").chmod(0o700)
    os.chown(directory, UID, UID)
    return directory


def disk(agent: Agent, starter: Process, **other: int) -> tuple[int, str | None]:
    """The error number of a disk count of a starter's directory, and the bytes."""
    said = {"start": starter.start_ticks, "uid": UID, **other}
    return agent.ask_all([f"disk {starter.pid} {said['start']} {said['uid']}"])[0]


def test_processes_of_a_job_are_found_also_those_that_have_left_it(agent: Agent, start: Start) -> None:
    job = start(["sh", "-c", "sleep 601; :"])
    until(lambda: len(family(job)) == 2)
    starter = job.parent
    assert starter is not None
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--", *SLEEP]
    left, other = (
        subprocess.Popen(
            as_user, env={f"_CONDOR_ANCESTOR_{starter.pid}": f"{pid}:1:1", "PATH": "/usr/bin:/bin"}
        )
        for pid in (job.pid, job.pid + 1)
    )
    try:
        until(lambda: all(Process(one.pid, 0).command == SLEEP for one in (left, other)))
        asked = f"family {job.pid} {job.start_ticks}"
        ((error, found),) = agent.ask_all([f"{asked} {UID}"])
        pids = {int(line.partition(":")[0]) for line in (found or "").split()}
        assert (error, pids) == (0, {*(one.pid for one in family(job)), left.pid})
        assert agent.ask(f"{asked} {OTHER}") == errno.EPERM
        assert agent.ask(f"{asked} 0") == errno.EPERM
        assert agent.ask(f"family {job.pid} {job.start_ticks + 1} {UID}") == errno.ESRCH
        found_left = there(Process.find(left.pid))
        # it has no starter, and not the environment of any job
        assert agent.ask(f"family {found_left.pid} {found_left.start_ticks} {UID}") == errno.EPERM
    finally:
        for one in (left, other):
            one.kill()
            one.wait()


def test_what_is_in_a_starter_s_directory_is_counted_as_the_account(
    agent: Agent, sleeping: Callable[..., Process], scratch: Path
) -> None:
    starter = sleeping("condor_starter", more=f"cd {scratch};")
    until(lambda: Path(f"/proc/{starter.pid}/cwd").readlink() == scratch)
    error, size = disk(agent, starter)
    assert error == 0
    # root's file is not counted
    assert 64 * 1024 <= int(size or 0) < 128 * 1024


def test_nothing_is_counted_but_the_account_s_own_in_a_starter_of_root_s(
    agent: Agent, sleeping: Callable[..., Process], scratch: Path
) -> None:
    starter = sleeping("condor_starter", more=f"cd {scratch};")
    elsewhere = sleeping("condor_starter", more="cd /tmp;")
    other = sleeping("starter", more=f"cd {scratch};")
    pretender = sleeping("condor_starter", USER, more=f"cd {scratch};")
    for one in (starter, other, pretender):
        until(lambda one=one: Path(f"/proc/{one.pid}/cwd").readlink() == scratch)  # type: ignore[misc]
    until(lambda: Path(f"/proc/{elsewhere.pid}/cwd").readlink() == Path("/tmp"))
    assert disk(agent, starter, uid=OTHER) == (errno.EPERM, None)
    assert disk(agent, starter, uid=0) == (errno.EPERM, None)
    assert disk(agent, starter, start=starter.start_ticks + 1) == (errno.ESRCH, None)
    for one in (elsewhere, other, pretender):
        assert disk(agent, one) == (errno.EPERM, None)


def test_agent_has_given_up_root_for_good(agent: Agent) -> None:
    _, uids, groups, status, home, refused = agent.facts
    entry = pwd.getpwnam(AGENT)
    assert uids == [entry.pw_uid] * 3
    assert groups == os.getgrouplist(AGENT, entry.pw_gid)
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert (fields["CapEff"], fields["CapPrm"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    assert (home, refused) == (entry.pw_dir, "refused")


def test_root_part_keeps_nothing_of_the_agent(agent: Agent) -> None:
    def files() -> list[str]:
        found = []
        for entry in Path(f"/proc/{agent.root_part}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(entry))
        return found

    # another process closes the files, perhaps a moment later; closed files do not come back
    until(lambda: sum(file != "/dev/null" for file in files()) == 1)
    (channel,) = [file for file in files() if file != "/dev/null"]
    assert channel.startswith("socket:")
    assert files().count("/dev/null") == 3


def test_job_of_another_account_gets_its_signal(agent: Agent, start: Start) -> None:
    job = start()
    assert agent.signal(job, signal.SIGSTOP) == 0
    until(lambda: job.stopped)
    assert agent.signal(job, signal.SIGKILL) == 0
    assert job.wait(PATIENCE_S)


def test_grandchild_of_a_starter_and_an_orphan_with_the_mark_are_jobs(agent: Agent, start: Start) -> None:
    deep = start(["sh", "-c", "sleep 600; true"])
    until(lambda: bool(deep.children()))
    (child,) = deep.children()
    orphan = start(starter="none", marked=True)
    for process in (child, orphan):
        assert agent.signal(process) == 0
        assert process.wait(PATIENCE_S)


def test_group_goes_with_its_leader(agent: Agent, start: Start) -> None:
    job = start(["sh", "-c", "setsid sh -c 'sleep 600 & wait'; true"])
    until(lambda: bool(job.children()) and bool(job.children()[0].children()))
    (leader,) = job.children()
    (child,) = leader.children()
    assert agent.signal(leader, group=1) == 0
    assert child.wait(PATIENCE_S)


def test_forged_and_reused_numbers_reach_nobody(agent: Agent, start: Start) -> None:
    job = start()
    assert agent.signal(job, start=job.start_ticks + 1) == errno.ESRCH
    assert agent.signal(job, start=0) == errno.ESRCH
    assert agent.signal(job, uid=OTHER) == errno.EPERM
    assert agent.signal(job, uid=0) == errno.EINVAL
    assert agent.signal(job, pid=2**22 - 1) == errno.ESRCH
    for number in (0, 65, 2**31):
        assert agent.signal(job, number) == errno.EINVAL
    assert job.alive


def test_processes_that_are_no_jobs_are_out_of_reach(agent: Agent, start: Start) -> None:
    shell = start(starter="none")
    # the account may give a program of its own any name
    pretender = start(starter="own")
    roots = Process.find(os.getpid())
    part = Process.find(agent.root_part)
    assert roots is not None
    assert part is not None
    assert agent.signal(shell) == errno.EPERM
    assert agent.signal(pretender) == errno.EPERM
    for process in (roots, part):
        assert agent.signal(process) == errno.EPERM
        assert agent.signal(process, uid=0) == errno.EINVAL
    assert all(process.alive for process in (shell, pretender, roots, part))


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Starts a process, under a given name, of an account that has no child yet."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, account: str = "root", more: str = "") -> Process:
        program = tmp_path / f"{len(started)}" / name
        program.parent.mkdir()
        shutil.copy("/bin/sh", program)
        program.chmod(0o755)
        as_user = ["setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups", "--"]
        process = subprocess.Popen(
            [*as_user, program, "-c", f"{more} read x"], stdin=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        found = there(Process.find(process.pid))
        until(lambda: found.name == name)
        return found

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)


def test_starter_of_roots_that_has_no_process_is_ended(
    agent: Agent, sleeping: Callable[..., Process]
) -> None:
    starter = sleeping("condor_starter")
    assert agent.ask(f"end {starter.pid} {starter.start_ticks + 1}") == errno.ESRCH
    assert agent.ask(f"end {starter.pid} {starter.start_ticks}") == 0
    assert starter.wait(PATIENCE_S)


def test_nothing_but_a_waiting_starter_of_roots_is_ended(
    agent: Agent, sleeping: Callable[..., Process]
) -> None:
    busy = sleeping("condor_starter", more="sleep 600 & ")
    until(lambda: bool(busy.children()))
    assert agent.ask(f"end {busy.pid} {busy.start_ticks}") == errno.EBUSY
    others = [sleeping("condor_startd"), sleeping("condor_starter", USER)]
    for process in others:
        assert agent.ask(f"end {process.pid} {process.start_ticks}") == errno.EPERM
    assert all(process.alive for process in (busy, *others))


def test_plain_file_of_the_account_is_opened_as_the_account(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("its own")
    file.chmod(0o600)
    os.chown(file, UID, UID)
    assert agent.open(file) == (0, "its own")
    assert agent.open(file, OTHER)[0] == errno.EPERM
    file.chmod(0o000)
    assert agent.open(file)[0] == errno.EACCES
    # in root's directory, which the account could not enter
    file.chmod(0o600)
    tmp_path.chmod(0o700)
    assert agent.open(file)[0] == errno.EACCES


def test_links_fifos_devices_and_others_files_are_not_opened(agent: Agent, tmp_path: Path) -> None:
    target, link, fifo, directory = (tmp_path / name for name in ("target", "link", "fifo", "directory"))
    target.write_text("root's")
    link.symlink_to(target)
    os.mkfifo(fifo)
    directory.mkdir()
    hard = tmp_path / "hard"
    hard.hardlink_to(target)
    for path in (fifo, directory):
        os.chown(path, UID, UID)
    os.lchown(link, UID, UID)
    for path in (target, link, fifo, directory, hard, Path("/dev/null"), Path("/dev/zero")):
        assert agent.open(path)[0] in (errno.EPERM, errno.EACCES, errno.ELOOP), path
    assert agent.open("/etc/shadow", 0)[0] == errno.EINVAL
    assert agent.open(target.name)[0] == errno.EINVAL
    # no account has this number
    assert agent.open(target, 4_000_000)[0] == errno.ENOENT


def writing(path: Path, *, stream: int = 1) -> list[str]:
    """A command that writes its output to a file and goes on."""
    return ["sh", "-c", f'exec {stream}>> "$0"; while :; do sleep 600; done', str(path)]


def test_plain_file_that_a_job_writes_to_is_opened_as_its_account(
    agent: Agent, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "output"
    file.write_text("what it wrote")
    os.chown(file, UID, UID)
    file.chmod(0o600)
    job, other = start(writing(file)), start(writing(file, stream=2))
    until(lambda: Path(f"/proc/{job.pid}/fd/1").readlink() == file)
    until(lambda: Path(f"/proc/{other.pid}/fd/2").readlink() == file)
    assert agent.output(job) == (0, "what it wrote")
    assert agent.output(other, 2) == (0, "what it wrote")
    # its output is a pipe, which the part refuses without waiting
    assert agent.output(other, 1)[0] == errno.EPERM
    # a file of another account is shown if the job's account may read it, and refused if not
    os.chown(file, OTHER, OTHER)
    assert agent.output(job)[0] == errno.EACCES
    file.chmod(0o644)
    assert agent.output(job) == (0, "what it wrote")
    # the file is removed from the directory, and the job goes on writing to it
    file.unlink()
    assert agent.output(job) == (0, "what it wrote")


def test_output_of_what_is_no_job_or_not_the_one_that_was_meant_is_out_of_reach(
    agent: Agent, start: Start, tmp_path: Path
) -> None:
    file, fifo = tmp_path / "output", tmp_path / "fifo"
    file.write_text("what it wrote")
    file.chmod(0o666)
    os.mkfifo(fifo)
    fifo.chmod(0o666)
    job, shell = start(writing(file)), start(writing(file), starter="none")
    until(lambda: all(Path(f"/proc/{one.pid}/fd/1").readlink() == file for one in (job, shell)))
    assert agent.output(job)[0] == 0
    assert agent.output(shell)[0] == errno.EPERM
    assert agent.output(job, uid=OTHER)[0] == errno.EPERM
    assert agent.output(job, uid=0)[0] == errno.EINVAL
    assert agent.output(job, start=job.start_ticks - 1)[0] == errno.ESRCH
    assert agent.output(job, 0)[0] == errno.EINVAL
    assert agent.output(job, 3)[0] == errno.EINVAL
    # the job has both ends of the FIFO, and no other process reads it: opening it for reading would take data
    # away
    both = start(["sh", "-c", 'exec 1<> "$0"; while :; do sleep 600; done', str(fifo)])
    until(lambda: Path(f"/proc/{both.pid}/fd/1").readlink() == fifo)
    assert agent.output(both)[0] == errno.EPERM
    device = start(writing(Path("/dev/null")))
    until(lambda: Path(f"/proc/{device.pid}/fd/1").readlink() == Path("/dev/null"))
    assert agent.output(device)[0] == errno.EPERM


RUBBISH: list[str | bytes] = [
    b" ",
    b"\0",
    "signal",
    "signal 1",
    "signal 1 1 1 1 1 1",
    "signal -1 1 1 9 0",
    "signal 1e1 1 1 9 0",
    "signal 1  1 1 9 0",
    "signal \u0661 1 1 9 0",
    f"signal {'9' * 30} 1 1 9 0",
    f"signal {'9' * 19} 1 1 9 0",
    "signal 1 1 1 9 2",
    "output",
    "output 1 1 1",
    "output 1 1 1 1 1",
    "output -1 1 1 1",
    "output 1 1 1 x",
    "open",
    "open 1",
    "open x /etc/passwd",
    "open 1 /etc/passwd\0",
    b"open 1 \xff",
    "exec 1 /bin/sh",
    "SIGNAL 1 1 1 9 0",
    b"open 1 /" + b"a" * 40000,
    "credential",
    "credential 1 box 2f",
    "credential 0 box 2f x",
    "credential 1 ../box 2f x",
    "credential 1 .box 2f x",
    "credential 1 box /tmp x",
    "credential 1 box 746d70 x",
    "credential 1 box 2f00 x",
]


def test_rubbish_and_many_requests_are_answered_each(agent: Agent, start: Start) -> None:
    answers = agent.ask_all(RUBBISH)
    assert {number for number, _ in answers} <= {errno.EINVAL, errno.E2BIG, errno.ESRCH, errno.EIO}
    job = start()
    several = f"signal {job.pid} {job.start_ticks} {UID} {signal.SIGCONT} 0"
    assert agent.ask_all([several] * 200) == [(0, None)] * 200
    assert agent.signal(job) == 0
    # the process that did it has ended
    part = there(Process.find(agent.root_part))
    until(lambda: part.children() == [])


def test_a_credential_is_written_as_its_account_and_nowhere_else(agent: Agent, tmp_path: Path) -> None:
    def put(directory: Path, uid: int = UID, name: str = "box", content: bytes = b"to ken\0\n") -> int:
        within = os.fsencode(directory).hex()
        return agent.ask(f"credential {uid} {name} {within} ".encode() + content)

    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for directory in (theirs, mine):
        directory.mkdir()
    os.chown(theirs, UID, UID)
    largest = bytes(range(256)) * 64
    assert put(theirs, content=largest) == 0
    assert put(theirs) == 0
    found = theirs / "box.use"
    assert found.read_bytes() == b"to ken\0\n"
    assert (found.stat().st_uid, found.stat().st_mode & 0o777) == (UID, 0o600)
    # a file of root, of another account, behind a link, and one that does not exist
    (tmp_path / "link").symlink_to(theirs)
    (theirs / "link").symlink_to(mine)
    assert put(mine) in (errno.EPERM, errno.EACCES)
    assert put(theirs, uid=OTHER) in (errno.EPERM, errno.EACCES)
    assert put(theirs, uid=0) == errno.EINVAL
    for link in (tmp_path / "link", theirs / "link"):
        assert put(link) in (errno.ELOOP, errno.ENOTDIR)
    assert put(theirs / "none") == errno.ENOENT
    os.mkfifo(theirs / "fifo")
    assert put(theirs / "fifo") == errno.ENOTDIR
    assert list(mine.iterdir()) == []
    assert sorted(path.name for path in theirs.iterdir()) == ["box.use", "fifo", "link"]


def test_a_full_disk_keeps_the_old_credential(agent: Agent, small_disk: Path) -> None:
    small_disk.parent.chmod(0o755)
    directory = small_disk / "creds"
    directory.mkdir()
    (directory / "box.use").write_text("old")
    for path in (directory, directory / "box.use"):
        os.chown(path, UID, UID)
    within = os.fsencode(directory).hex()
    filler = fill(small_disk)
    assert agent.ask(f"credential {UID} box {within} ".encode() + b"n" * 16000) == errno.ENOSPC
    assert [(path.name, path.read_text()) for path in directory.iterdir()] == [("box.use", "old")]
    filler.unlink()
    assert agent.ask(f"credential {UID} box {within} new") == 0
    assert (directory / "box.use").read_text() == "new"


@pytest.mark.parametrize("after_its_answer", [False, True])
def test_what_an_account_has_stopped_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_its_answer: bool
) -> None:
    """As by kill(-1, SIGSTOP): no timer ends a stopped process, so each request would leave another one."""
    # the child that does not answer must have started within this time
    monkeypatch.setattr(privilegedpart, "TIME_S", PATIENCE_S if after_its_answer else 3.0)
    helper = tmp_path / "helper"

    def stop() -> None:
        helper.write_text(str(os.getpid()))
        if after_its_answer:
            monkeypatch.setattr(os, "_exit", lambda _: os.kill(os.getpid(), signal.SIGSTOP))
        else:
            os.kill(os.getpid(), signal.SIGSTOP)

    answer = privilegedpart._by_a_process(lambda: None, stop)
    assert answer == (0 if after_its_answer else errno.ETIMEDOUT, None)
    pid = int(helper.read_text())
    until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)


def test_root_part_ends_with_the_agent_and_by_nothing_that_a_daemon_is_told(agent: Agent) -> None:
    part = there(Process.find(agent.root_part))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        part.signal(number)
    assert agent.ask("signal 1 1 0 9 0") == errno.EINVAL
    agent.process.kill()
    assert part.wait(PATIENCE_S)


def test_agent_whose_root_part_is_gone_gets_no_answer(agent: Agent) -> None:
    part = there(Process.find(agent.root_part))
    part.signal(signal.SIGKILL)
    assert part.wait(PATIENCE_S)
    assert agent.ask("signal 1 1 1 9 0") in (errno.ECONNRESET, errno.EPIPE)


# a request that exceeds its time, as on a file system that does not answer
SLOW = """
import errno, json, time
from fetchwork.agent.root import privilegedpart
privilegedpart.TIME_S = 0.3
answers = [privilegedpart._by_a_process(lambda: None, lambda: time.sleep(600))]
privilegedpart.TIME_S = 600.0
answers.append(privilegedpart._by_a_process(lambda: None, lambda: None))
print(json.dumps(answers))
"""


def test_request_that_hangs_costs_its_time_and_no_more() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SLOW], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert json.loads(done.stdout) == [[errno.ETIMEDOUT, None], [0, None]]


# files whose opening waits for another file, and a request that does not depend on them
BESIDE = """
import errno, json, os, socket, sys, threading, time
from pathlib import Path
from fetchwork.agent.root import privilegedclient, privilegedpart
privilegedpart.TIME_S = privilegedclient.ANSWER_S = 600.0
def slow(uid, path):
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    return 1000 + int(path[1:]), None
privilegedpart._answer_open = slow
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
pid = os.fork()
if pid == 0:
    privilegedpart._serve(theirs)
    os._exit(0)
theirs.close()
part = privilegedpart.PrivilegedClient(ours, pid)
answers = {}
def ask(number):
    try:
        part.open(Path(f"/{number}"), 1)
    except OSError as error:
        answers[number] = error.errno
threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
try:
    part.signal("1:1", 0, 9, group=False)
except OSError as error:
    first = error.errno
before = dict(answers)
Path(sys.argv[1]).touch()
for thread in threads:
    thread.join()
part.close()
print(json.dumps([first, before, sorted(answers.items())]))
"""


def test_file_that_does_not_open_keeps_no_other_request_waiting(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BESIDE, tmp_path / "gate"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    # each request has its own answer
    assert json.loads(done.stdout) == [errno.EINVAL, {}, [[0, 1000], [1, 1001], [2, 1002]]]


@pytest.mark.parametrize("account", ["root", "no-such-account"])
def test_agent_does_not_split_into_root_and_root(account: str) -> None:
    fetchwork = there(shutil.which("fetchwork", path=str(Path(sys.executable).parent)))
    told = subprocess.run(
        [fetchwork, "agent", "--user", account, "--config", "/nonexistent"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert account in told.stderr
