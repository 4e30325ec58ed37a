"""The privileged part of the agent, which keeps root if HTCondor runs as root: this file and its imports.

``described`` inspects processes, ``sandbox.credentials`` writes a credential, ``sandbox.diskuse`` counts
files.

The agent starts as root, and splits in two before it reads anything (``split``): its child keeps root and
runs ``_serve``. The agent itself drops to its account for good, and can send the child the seven requests
below through a socket pair that both have inherited. No other process can: the socket has no name, and no
other process inherits it. When one of the two ends, the other ends too.

Each request is one packet that begins with a number, and gets one answer with the same number:

- ``signal PID START UID NUMBER GROUP``: send a signal to the process PID that began at START (clock ticks
  since the boot) and belongs to UID; with GROUP 1 also to the group that it leads. Only to jobs: the process
  descends from a condor_starter that root started, or was started with a job's environment.
- ``family PID START UID``: list, as UID, the processes of such a process's job (``family_of``). The answer is
  in a file, "PID:START" one a line.
- ``end PID START``: send SIGTERM, by which a startd vacates a job, to the condor_starter PID that root
  started and that began at START. Only while the starter has no process of its own: it waits for the time of
  its job.
- ``open UID PATH``: open a file of UID for reading, as UID. Only a plain file that belongs to UID, and no
  link; so the call never waits for a FIFO or touches a device.
- ``output PID START UID STREAM``: open, as UID, the file that such a process has as stdout (1) or stderr (2)
  for reading. Only a plain file, of any owner; a file that UID may not read is not opened.
- ``credential UID NAME DIRECTORY CONTENT``: write the credential NAME into a directory of UID, as UID
  (``fetchwork.sandbox.credentials``). DIRECTORY is a path in hex, CONTENT the rest of the packet.
- ``disk PID START UID``: count, as UID, the bytes of the files in the scratch directory of such a
  condor_starter (``fetchwork.sandbox.diskuse``): its working directory, if that belongs to UID. The answer is
  in a file.

A child process that has become UID does the work of a request, so that the kernel decides what UID may do. It
has ``TIME_S``, and other requests are answered meanwhile: a file system of one person that does not answer
delays no signal of another. UID 0 is refused. An attacker who takes over the agent can at worst end jobs,
read files that their owners can read, and write files of theirs whose names end with ".use".
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import re
import select
import signal
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fetchwork.agent.root.described import describe, family_of, is_jobs, is_roots_starter, namespace
from fetchwork.agent.root.privilegedclient import PrivilegedClient
from fetchwork.sandbox import credentials, diskuse

#: seconds for one request: a file may be on a file system that does not answer
TIME_S = 3.0
MAX_REQUEST = 32768
#: most requests worked on at once
MOST = 64
#: seconds for the end of a killed process, which may still wait for a file system
_END_S = 0.2
_NOBODY = 65534
#: signals that tell a daemon to end
_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
#: a credential's name, which can only be a plain file name
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def split(account: str) -> PrivilegedClient:
    """Leave the privileged part behind, and become ``account`` for good. Raises OSError, LookupError."""
    entry = pwd.getpwnam(account)
    if entry.pw_uid == 0:
        raise LookupError(f"account '{account}' is root")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # the privileged part ignores these signals from its first moment on
    heeded = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    try:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _serve(theirs)
                status = 0
            finally:
                os._exit(status)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heeded)
    theirs.close()
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or 0 in os.getresuid():
        raise PermissionError(errno.EPERM, "root was not given up")
    # otherwise not even the account itself could inspect the agent in /proc
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    os.environ.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    return PrivilegedClient(ours, pid)


# -- the code below runs as root


def _serve(connection: socket.socket) -> None:
    """Answer requests until the agent ends; only the end of the socket says so."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    # no code waits for the child processes of requests
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.chdir("/")
    os.umask(0o077)
    os.environ.clear()
    # drop everything of the agent, also its log and standard streams
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    channel = connection.detach()
    _close_all_but(channel)
    with socket.socket(fileno=channel) as agent:
        answering: list[int] = []
        while request := agent.recv(MAX_REQUEST + 32):
            pid = os.fork()
            if pid == 0:
                try:
                    _answer_one(agent, request)
                finally:
                    os._exit(0)
            with suppress(ProcessLookupError):
                answering.append(os.pidfd_open(pid))
            answering = _still(answering)


def _still(answering: list[int]) -> list[int]:
    """Return the processes that are still working; wait until they are fewer than ``MOST``."""
    ended = select.poll()
    for handle in answering:
        ended.register(handle, select.POLLIN)
    gone = {handle for handle, _ in ended.poll(None if len(answering) >= MOST else 0)}
    for handle in gone:
        os.close(handle)
    return [handle for handle in answering if handle not in gone]


def _answer_one(agent: socket.socket, request: bytes) -> None:
    """Answer a request, in a child process that ends afterwards."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 2 * TIME_S)
    _close_all_but(agent.fileno())
    number, _, asked = request.partition(b" ")
    error, answered = _answer(asked)
    number = number if number.isdigit() else b"0"
    socket.send_fds(agent, [b"%s %d" % (number, error)], [] if answered is None else [answered])


def _answer(request: bytes) -> tuple[int, int | None]:
    """Return the error number (0: no error) and a descriptor."""
    verb, _, rest = request.partition(b" ")
    try:
        if len(request) > MAX_REQUEST:
            return errno.E2BIG, None
        if verb == b"signal":
            return _answer_signal(*map(_number, rest.split(b" "))), None
        if verb == b"end":
            return _answer_end(*map(_number, rest.split(b" "))), None
        if verb == b"disk":
            return _answer_disk(*map(_number, rest.split(b" ")))
        if verb == b"family":
            return _answer_family(*map(_number, rest.split(b" ")))
        if verb == b"output":
            return _answer_output(*map(_number, rest.split(b" ")))
        if verb == b"credential":
            uid, name, within, content = rest.split(b" ", 3)
            directory = bytes.fromhex(within.decode("ascii"))
            return _answer_credential(_number(uid), name.decode("ascii"), directory, content)
        if verb == b"open":
            uid, _, path = rest.partition(b" ")
            return _answer_open(_number(uid), path)
    except (ValueError, TypeError, OverflowError):
        return errno.EINVAL, None
    except OSError as error:
        return error.errno or errno.EIO, None
    return errno.EINVAL, None


def _answer_signal(pid: int, began: int, uid: int, number: int, group: int) -> int:
    if not uid or not 1 <= number <= 64 or group > 1:
        return errno.EINVAL
    handle = os.pidfd_open(pid)
    try:
        # the descriptor stays with the process that has the pid now: check that process, then send
        found = describe(pid)
        if found is None or found.began != began:
            return errno.ESRCH
        if found.uid != uid or not is_jobs(pid):
            return errno.EPERM

        def send() -> None:
            if group and os.getpgid(pid) == pid:
                os.killpg(pid, number)
            else:
                signal.pidfd_send_signal(handle, number)

        def become() -> None:
            _become(uid, _NOBODY)

        return _by_a_process(become, send, handle)[0]
    finally:
        os.close(handle)


def _answer_end(pid: int, began: int) -> int:
    handle = os.pidfd_open(pid)
    try:
        found = describe(pid)
        if found is None or found.began != began:
            return errno.ESRCH
        if not is_roots_starter(found):
            return errno.EPERM
        if any(path.read_bytes().strip() for path in Path(f"/proc/{pid}/task").glob("*/children")):
            return errno.EBUSY
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        return 0
    finally:
        os.close(handle)


def _answer_family(pid: int, began: int, uid: int) -> tuple[int, int | None]:
    found = describe(pid)
    if found is None or found.began != began:
        return errno.ESRCH, None
    if not uid or found.uid != uid or not is_jobs(pid):
        return errno.EPERM, None

    outside = namespace(found.parent)

    def find() -> int:
        return _file("family", "".join(f"{one}:{start}\n" for one, start in family_of(pid, outside)))

    return _by_a_process(lambda: _become_wholly(uid), find)


def _answer_disk(pid: int, began: int, uid: int) -> tuple[int, int | None]:
    found = describe(pid)
    if found is None or found.began != began:
        return errno.ESRCH, None
    if not uid or not is_roots_starter(found):
        return errno.EPERM, None
    directory = os.open(f"/proc/{pid}/cwd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # the directory was that of the same process
        if describe(pid) != found:
            return errno.ESRCH, None
        if os.fstat(directory).st_uid != uid:
            return errno.EPERM, None

        def count() -> int:
            return _file("disk", str(diskuse.used(directory, time.monotonic() + TIME_S / 2)))

        return _by_a_process(lambda: _become_wholly(uid), count, directory)
    finally:
        os.close(directory)


def _answer_open(uid: int, path: bytes) -> tuple[int, int | None]:
    if not uid or not path.startswith(b"/") or b"\0" in path:
        return errno.EINVAL, None

    def open_it() -> int:
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if os.fstat(found).st_uid != uid:
            raise PermissionError(errno.EPERM, "no file of this account")
        return _open_plain(found)

    return _by_a_process(lambda: _become_wholly(uid), open_it)


def _answer_credential(uid: int, name: str, directory: bytes, content: bytes) -> tuple[int, int | None]:
    if not uid or not _NAME.fullmatch(name) or not directory.startswith(b"/") or b"\0" in directory:
        return errno.EINVAL, None

    def put_it() -> None:
        credentials.put(os.fsdecode(directory), name, content)

    return _by_a_process(lambda: _become_wholly(uid), put_it)


def _answer_output(pid: int, began: int, uid: int, stream: int) -> tuple[int, int | None]:
    if not uid or stream not in (1, 2):
        return errno.EINVAL, None

    def is_it() -> bool:
        found = describe(pid)
        return found is not None and found.began == began

    if not is_it():
        return errno.ESRCH, None
    found = describe(pid)
    if found is None or found.uid != uid or not is_jobs(pid):
        return errno.EPERM, None

    def open_it() -> int:
        # the kernel lets an account open the files of its own processes
        opened = os.open(f"/proc/{pid}/fd/{stream}", os.O_PATH | os.O_CLOEXEC)
        if not is_it():
            # another process has the number now
            raise ProcessLookupError(errno.ESRCH, "the process has ended")
        return _open_plain(opened)

    return _by_a_process(lambda: _become_wholly(uid), open_it)


def _file(name: str, text: str) -> int:
    """Return a descriptor of a file in memory with this text."""
    answer = os.memfd_create(name)
    with os.fdopen(os.dup(answer), "w") as file:
        file.write(text)
    os.lseek(answer, 0, os.SEEK_SET)
    return answer


def _open_plain(found: int) -> int:
    """Open the file of a descriptor (O_PATH) for reading; the descriptor alone can't be read."""
    if not stat.S_ISREG(os.fstat(found).st_mode):
        raise PermissionError(errno.EPERM, "no plain file")
    return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _become_wholly(uid: int) -> None:
    """Become an account with its groups; may hang in a name service. Raises KeyError, OSError."""
    entry = pwd.getpwuid(uid)
    _become(uid, entry.pw_gid, entry.pw_name)


def _become(uid: int, gid: int, name: str | None = None) -> None:
    if name is None:
        os.setgroups([])
    else:
        os.initgroups(name, gid)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _by_a_process(
    become: Callable[[], None], act: Callable[[], int | None], *needed: int
) -> tuple[int, int | None]:
    """Run ``act`` in a child process as another account; return its error number and its descriptor."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, TIME_S)
            _close_all_but(theirs.fileno(), *needed)
            _tell(theirs, become, act)
        finally:
            os._exit(0)
    theirs.close()
    try:
        with ours:
            ready = select.poll()
            ready.register(ours, select.POLLIN)
            if not ready.poll(TIME_S * 1000):
                return errno.ETIMEDOUT, None
            answer, fds, _, _ = socket.recv_fds(ours, 16, 1)
    finally:
        _kill(pid)
    # no answer: its timer or the account that it had become killed it
    return (int(answer) if answer else errno.ETIMEDOUT), (fds[0] if fds else None)


def _kill(pid: int) -> None:
    """Kill a child process: the account that it has become may have stopped it, and its timer with it."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        # SIGCHLD is ignored, so it leaves no zombie
        ended.poll(_END_S * 1000)


def _tell(channel: socket.socket, become: Callable[[], None], act: Callable[[], int | None]) -> None:
    try:
        become()
        fd = act()
    except (OSError, KeyError) as error:
        number = error.errno or errno.EIO if isinstance(error, OSError) else errno.ENOENT
        channel.sendall(b"%d" % number)
    else:
        socket.send_fds(channel, [b"0"], [] if fd is None else [fd])


def _number(word: bytes) -> int:
    """Return a number as the agent writes it; it is never negative."""
    if not word.isdigit() or len(word) > 20:
        raise ValueError
    return int(word)


def _close_all_but(*kept: int) -> None:
    first = 3
    for fd in sorted(kept):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
