"""The program of a hook: it sends stdin to the agent and prints the reply, within one deadline.

Theory of operation
-------------------
Each call of a hook starts an interpreter, so this module imports only built-in C modules and three small
files of its own; code for failures is imported when one happens. It leaves by ``_exit``, which saves the
interpreter's shutdown: all output is written by then, unbuffered.

HTCondor sets no time limit on most hooks, and a hook that hangs stops its slot. Each wait here (stdin, the
connection, the agent, stdout) is a poll against one deadline of the monotonic clock. In addition an interval
timer's signal ends the process, even if a file system does not answer.

Without an answer of the agent each hook fails in the way that HTCondor reads correctly: FETCH_WORK prints no
job, PREPARE_JOB keeps the job from starting, JOB_EXIT leaves its report in the spool, and the others exit 1.

The compiled hook (compiled/client.c) behaves like this one. It becomes this one by exec if it has to do more
than ask an agent that answers; a ``Handover`` says how far it got.
"""

import posix
import sys
from _signal import (  # type: ignore[import-not-found]
    ITIMER_REAL,
    SIG_DFL,
    SIG_UNBLOCK,
    SIGALRM,
    pthread_sigmask,
    setitimer,
    signal,
)
from select import POLLIN, POLLOUT, poll
from time import monotonic, time

from fetchwork.hook.link import Link
from fetchwork.hook.wire import MAX_BODY, Reply, Request
from fetchwork.hookerrors import AgentUnavailable, ConfigError, FetchworkError, ProtocolError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fetchwork.hook.handover import Handover

# seconds. HTCondor kills JOB_EXIT after 30; FETCH_WORK waits in the agent for work.
_DEADLINES = {
    "fetch_work": 75.0,
    "reply_fetch": 10.0,
    "evict_claim": 10.0,
    "prepare_job": 20.0,
    "update_job_info": 15.0,
    "job_exit": 20.0,
}
#: seconds after its deadline at which a signal ends a hook that hangs
_GRACE_S = 2.0
# pipes take this much without blocking once they are writable (PIPE_BUF)
_PIPE_CHUNK = 4096


def main(name: str, home: str) -> None:
    """Run hook ``name``, installed in directory ``home``, and end the process with its exit status."""
    status = 1
    try:
        _open_standard_descriptors()
        # the directory of the call determines the keyword; if it has no hook.conf because the call went by a
        # symbolic link from elsewhere, the link's target does
        called_from, _, file = sys.argv[0].rpartition("/")
        handover = None
        if file.endswith(".py"):
            from fetchwork.hook.handover import take

            handover = take()
            called_from = handover.called_from if handover else called_from
        status = _Hook(name, (called_from, home), handover).run()
        if name == "job_exit":
            from fetchwork.hook.siblings import await_updates

            await_updates()
    except FetchworkError as exc:
        status = _give_up(name, str(exc))
    except BaseException as exc:
        status = _give_up(name, f"{type(exc).__name__}: {exc}")
    finally:
        posix._exit(status)


class _Hook:
    def __init__(self, name: str, directories: tuple[str, ...], handover: "Handover | None") -> None:
        self.name = name
        self.directories = directories
        self.handover = handover
        self.start = handover.start if handover else monotonic()
        self.total_s = _DEADLINES[name]
        self._set_end()
        self.conf = read_conf(directories)
        for key in (name + "_deadline_s", "deadline_s"):
            if key in self.conf:
                self._change_deadline(key, self.conf[key])
                break
        self.body = b""
        self.check = ""
        #: whether PREPARE_JOB has to write credentials
        self.brings_credentials = False

    def _change_deadline(self, key: str, text: str) -> None:
        try:
            wanted = float(text)
        except ValueError:
            wanted = 0.0
        if not 1.0 <= wanted <= 86400.0:
            raise ConfigError([f"hook.conf: {key} is '{one_line(text, 40)}'; allowed are 1 to 86400"])
        # only FETCH_WORK may exceed its default: during the others the startd or starter waits
        if self.name == "fetch_work" or wanted < self.total_s:
            self.total_s = wanted
            self._set_end()

    def _set_end(self) -> None:
        self.end = self.start + self.total_s
        # the compiled hook may hand over after the deadline
        _set_timer(max(0.0, self.end - monotonic()) + _GRACE_S)

    def run(self) -> int:
        handover = self.handover
        if handover and handover.state == "failed":
            raise FetchworkError(handover.cause)
        # after a handover stdin is complete, so it can be read even after the deadline
        self.body = _read_stdin(max(self.end, monotonic() + 1.0) if handover else self.end)
        if self.name == "prepare_job":
            from fetchwork.hook.jobcheck import find_problem

            self.check = one_line(find_problem(self.body))
            if b"FetchWorkCredentials" in self.body:
                from fetchwork.hook import credentialfiles

                self.brings_credentials = credentialfiles.are_needed(self.body)
                if self.brings_credentials:
                    self.body = credentialfiles.with_directory(self.body)
        elif self.name == "job_exit" and b"FetchWorkTailBytes" in self.body:
            self._add_output()
        if b"FetchWorkSandbox" in self.body and self.name in ("prepare_job", "job_exit"):
            from fetchwork.hook.sandboxed import has_sandbox

            if has_sandbox(self.body):
                return self._run_with_sandbox()
        return self._run_without_sandbox()

    def _run_without_sandbox(self) -> int:
        handover = self.handover
        if handover and handover.state != "afresh":
            return self._undelivered(handover.cause)
        request = self._request(deadline_ms=max(1, int((self.end - monotonic()) * 1000)), check=self.check)
        try:
            reply = Link(self.conf["socket"], self.end).ask(request)
        except FetchworkError as exc:
            return self._undelivered(str(exc))
        if reply.code:
            cause = f"agent: {reply.message or reply.code}"
            # a repeated request would get the same answer
            if reply.code in ("bad_request", "denied"):
                raise FetchworkError(cause)
            return self._undelivered(cause)
        return self._deliver(self._with_credentials(reply))

    def _request(self, *, deadline_ms: int = 0, check: str = "", written: int = 0) -> Request:
        return Request(
            self.name,
            self.body,
            keyword=self.conf["keyword"],
            arg=one_line(sys.argv[1], 40) if len(sys.argv) > 1 else "",
            slot=posix.environ.get(b"_CONDOR_SLOT", b"").decode("utf-8", "replace"),
            deadline_ms=deadline_ms,
            check=check,
            written=written,
        )

    def _run_with_sandbox(self) -> int:
        from fetchwork.hook import sandboxed

        report = self._request(written=int(time()))
        files = sandboxed.Files(self.conf, self.body, report.slot)
        if self.name == "prepare_job":
            # the fence first: a run that has lost its job gets no files
            request = self._request(
                deadline_ms=max(1, int((self.end - monotonic()) * 1000)), check=self.check
            )
            reply = Link(self.conf["socket"], self.end).ask(request)
            if reply.code:
                raise FetchworkError(f"agent: {reply.message or reply.code}")
            if reply.exit == 0:
                reply = self._with_credentials(reply)
                filled = sandboxed.prepare(files, self.body, self.directories)
                reply = Reply(filled + reply.body)
                self.end = monotonic() + self.total_s
            return self._deliver(reply)
        parked = sandboxed.park(files, self.conf, self.body, report, self.start)
        if isinstance(parked, str):
            sandboxed.tell_parked(files, report.arg, parked)
            return 0
        # there are no outputs, or they could not be staged, which the report says
        self.body = parked
        self.end = monotonic() + self.total_s
        _set_timer(self.total_s + _GRACE_S)
        return self._run_without_sandbox()

    def _add_output(self) -> None:
        from fetchwork.hook.jobtail import with_output

        try:
            self.body = with_output(self.body)
        except Exception as exc:
            # the report must not be lost because its output can't be read
            _complain(self.name, f"cannot read the job's output: {type(exc).__name__}")

    def _with_credentials(self, reply: Reply) -> Reply:
        """Write the credentials that the agent has sent; return its answer without them."""
        if not self.brings_credentials or reply.exit:
            return reply
        from fetchwork.hook.credentialfiles import take

        self.brings_credentials = False
        return Reply(take(reply.body), stderr=reply.stderr)

    def _deliver(self, reply: Reply) -> int:
        if reply.signal:
            signal_job(self.body, reply.pid, reply.signal)
        if reply.stderr:
            _complain(self.name, reply.stderr)
        body = reply.body
        if self.name == "prepare_job" and b"-----\n" in body:
            from fetchwork.hook.adfiles import write

            body, problem = write(body)
            if problem:
                _complain(self.name, problem)
        if body:
            _write_all(1, body, self.end)
        return reply.exit & 0xFF

    def _undelivered(self, cause: str) -> int:
        if self.name != "job_exit":
            raise AgentUnavailable(cause)
        from fetchwork.hook.spool import write_report

        if "spool" not in self.conf:
            raise AgentUnavailable(f"{cause}; no spool to keep the report in")
        write_report(self.conf["spool"], self._request())
        _complain(self.name, f"{cause}; report kept in spool '{self.conf['spool']}'")
        return 0


def signal_job(body: bytes, pid: int, number: int) -> None:
    """Send signal ``number`` to the job of the ad in ``body``, if ``pid`` is its JobPid."""
    start = (b"\n" + body).find(b"\nJobPid = ")
    line = body[start:].split(b"\n", 1)[0] if start >= 0 else b""
    known = line.rpartition(b" ")[2].strip()
    # 0 and negative numbers are process groups, and 1 is init
    if pid <= 1 or known != b"%d" % pid or not 1 <= number <= 64:
        raise ProtocolError(f"agent asks to send signal {number} to process {pid}, which is not the job")
    try:
        posix.kill(pid, number)
    except ProcessLookupError:
        pass
    except OSError as exc:
        raise FetchworkError(f"cannot send signal {number} to the job: {exc.strerror}") from None


def _give_up(name: str, cause: str) -> int:
    """Fail in the way that HTCondor reads correctly."""
    try:
        _complain(name, cause)
        if name == "prepare_job":
            # the fence: a job whose run can't be confirmed does not start
            text = one_line(cause, 400).replace('"', "'").rstrip("\\")
            status = f'HookStatusCode = 350\nHookStatusMessage = "fetchwork: {text}"\n'
            _write_all(1, status.encode("utf-8", "replace"), monotonic() + 1.0)
    except BaseException:
        return 1
    return 0 if name == "fetch_work" else 1


def _complain(name: str, text: str) -> None:
    line = one_line(f"fetchwork {name}: {text}", 500).encode("utf-8", "replace") + b"\n"
    waiter = poll()
    waiter.register(2, POLLOUT)
    if waiter.poll(200):
        try:
            posix.write(2, line)
        except OSError:
            pass


def _open_standard_descriptors() -> None:
    # UPDATE_JOB_INFO, REPLY_FETCH and EVICT_CLAIM start with 1 and 2 closed: the socket would become stdout
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            # open() returns the lowest free descriptor: this one
            posix.set_inheritable(posix.open("/dev/null", posix.O_RDWR), True)


def _set_timer(seconds: float) -> None:
    signal(SIGALRM, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))
    setitimer(ITIMER_REAL, seconds)


def read_conf(directories: tuple[str, ...]) -> dict[str, str]:
    """The settings of ``hook.conf`` in the first of the directories that has one; raises ConfigError."""
    for directory in directories:
        try:
            fd = posix.open(directory + "/hook.conf", posix.O_RDONLY | posix.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise ConfigError([f"cannot read '{directory}/hook.conf': {exc.strerror}"]) from None
        data = posix.read(fd, 65536)
        posix.close(fd)
        conf = {}
        for line in data.decode("utf-8", "replace").split("\n"):
            key, equals, value = line.partition("=")
            if equals and not key.startswith("#"):
                conf[key.strip()] = value.strip()
        for key in ("keyword", "socket"):
            if not conf.get(key):
                raise ConfigError([f"'{directory}/hook.conf' has no '{key} = ...'"])
        return conf
    raise ConfigError([f"no hook.conf in '{directories[0]}'; 'fetchwork hooks install' writes it"])


def _read_stdin(end: float) -> bytes:
    waiter = poll()
    waiter.register(0, POLLIN)
    parts: list[bytes] = []
    size = 0
    while True:
        left = end - monotonic()
        if left <= 0 or not waiter.poll(left * 1000):
            raise FetchworkError("stdin does not end")
        try:
            data = posix.read(0, 65536)
        except OSError as exc:
            raise FetchworkError(f"cannot read stdin: {exc.strerror}") from None
        if not data:
            return b"".join(parts)
        size += len(data)
        if size > MAX_BODY:
            raise FetchworkError(f"stdin is larger than {MAX_BODY} bytes")
        parts.append(data)


def _write_all(fd: int, data: bytes, end: float) -> None:
    waiter = poll()
    waiter.register(fd, POLLOUT)
    view = memoryview(data)
    while view:
        left = end - monotonic()
        if left <= 0 or not waiter.poll(left * 1000):
            raise FetchworkError("stdout is not read")
        try:
            view = view[posix.write(fd, view[:_PIPE_CHUNK]) :]
        except OSError as exc:
            raise FetchworkError(f"cannot write stdout: {exc.strerror}") from None
