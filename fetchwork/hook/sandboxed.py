"""PREPARE_JOB and JOB_EXIT of a job with a sandbox, whose files come and leave through the agent.

Imported only for such a job (``FetchWorkSandbox``). ``fetchwork.sandbox`` has the rules for the files; this
module adds the connections to the agent and the time limits. HTCondor sets no limit on PREPARE_JOB, so the
hook gives up after STALL_S without progress. JOB_EXIT has HTCondor's limit.
"""

import posix
from _signal import ITIMER_REAL, SIGALRM, setitimer, signal  # type: ignore[import-not-found]
from time import monotonic

from fetchwork.hook.link import Link
from fetchwork.hook.wire import Request, encode_request
from fetchwork.hookerrors import AgentUnavailable, FetchworkError, one_line
from fetchwork.sandbox.failure import TransferFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fetchwork.sandbox.destination import Sign

MARK = b"FetchWorkSandbox = true"
#: seconds without a byte after which PREPARE_JOB ends, one run of a plugin included
STALL_S = 900.0
#: seconds for one answer of the agent, which may have to wait for its database
ANSWER_S = 60.0
#: seconds for JOB_EXIT's two short requests: how the job ended, and that its files are staged
QUESTION_S = 5.0
#: seconds of HTCondor's limit that JOB_EXIT keeps in reserve
RESERVE_S = 4.0
#: the program beside the hooks that runs in place of a job with checkpoints
SAVER = "checkpointed"
_KEYS = (b"FetchWorkRunId = ", b"FetchWorkToken = ")


def has_sandbox(body: bytes) -> bool:
    """Whether the job of an ad has a sandbox."""
    return (b"\n" + body).find(b"\n" + MARK) >= 0


def key_lines(body: bytes) -> bytes:
    """The lines of a job's ad that identify the run."""
    return b"".join(line + b"\n" for line in body.split(b"\n") if line.startswith(_KEYS))


class Files:
    """A hook's requests about its job's files, on one connection that is reopened if it breaks."""

    def __init__(self, conf: dict[str, str], body: bytes, slot: str) -> None:
        self._link = Link(conf["socket"], 0.0)
        self._keyword = conf["keyword"]
        self._slot = slot
        # only the run's identity: the agent would have to parse the rest of the ad for each chunk
        self._body = key_lines(body)

    def ask(self, name: str, arg: str, body: bytes = b"", timeout_s: float = ANSWER_S) -> bytes:
        """Return the body of the agent's answer; raises FetchworkError."""
        request = Request(
            name,
            self._body + body,
            keyword=self._keyword,
            arg=arg,
            slot=self._slot,
            deadline_ms=int(timeout_s * 1000),
        )
        self._link.end = monotonic() + timeout_s + 1.0
        reply = self._link.ask(request, keep=True)
        if reply.code == "unavailable":
            raise AgentUnavailable(f"agent: {reply.message}")
        if reply.code:
            raise FetchworkError(f"agent: {reply.message or reply.code}")
        return reply.body

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


def _set_timer(seconds: float) -> None:
    setitimer(ITIMER_REAL, seconds)


# -- PREPARE_JOB


def prepare(files: Files, body: bytes, directories: tuple[str, ...]) -> bytes:
    """Fill the sandbox, which is the working directory; return the lines for the starter.

    ``directories`` have the hooks. Raises FetchworkError. A TransferFailure has been reported to the agent,
    which holds the job.
    """
    from fetchwork.sandbox import checkpoint
    from fetchwork.sandbox.fill import fill

    _set_timer(STALL_S)
    ask = _Patience(files).until_answered

    try:
        filled = fill(posix.getcwd(), ask, lambda more_s: _set_timer(STALL_S + more_s))
        problem = _problem_of(body, filled.changes)
        if problem:
            raise TransferFailure(6, 2, problem)
        changes = filled.changes
        if checkpoint.wanted(filled.ad):
            changes = _before_each_execution(filled.ad, body, changes, directories)
        if filled.unused:
            posix.write(2, one_line(f"fetchwork: checkpoint not used: {filled.unused}", 500).encode() + b"\n")
        ask("input_done", f"{filled.size} {filled.seconds:.3f}", _unused(filled.unused))
    except TransferFailure as failure:
        ask("input_failed", f"{failure.code} {failure.subcode} {one_line(failure.reason, 800)}")
        raise
    finally:
        files.close()
    return changes


def _before_each_execution(
    ad: dict[str, object], body: bytes, changes: bytes, directories: tuple[str, ...]
) -> bytes:
    """Have the starter run the program that saves checkpoints and then becomes the job."""
    from fetchwork.hook.jobcheck import join, read_literals
    from fetchwork.sandbox import checkpoint

    program = next(
        (path for path in (f"{one}/{SAVER}" for one in directories) if posix.access(path, posix.X_OK)), None
    )
    if program is None:
        raise FetchworkError(f"the hooks were installed without '{SAVER}': run fetchwork hooks install")
    command = read_literals(body + b"\n" + changes, frozenset(("cmd",))).get("cmd") or ""
    last = ad.get("CheckpointNumber")
    progress = checkpoint.Progress(
        join(posix.getcwd(), command),
        key_lines(body).decode("utf-8", "replace"),
        last + 1 if isinstance(last, int) else 0,
    )
    progress.write(posix.getcwd())
    return f'Cmd = "{program}"\n'.encode()


def _unused(problem: str) -> bytes:
    """The ad's line with the reason why the last checkpoint is not used."""
    text = one_line(problem, 400).replace("\\", "/").replace('"', "'")
    return f'FetchWorkCheckpointUnused = "{text}"\n'.encode("utf-8", "replace") if problem else b""


def _problem_of(body: bytes, changes: bytes) -> str:
    """The problem at which the starter would fail with the inputs in place."""
    from fetchwork.hook.jobcheck import find_problem

    lines = [line for line in body.split(b"\n") if not (changes and line.startswith(b"Cmd = "))]
    return one_line(
        find_problem(
            b"\n".join(line for line in lines if not line.startswith(MARK)) + b"\n" + changes, is_filled=True
        )
    )


class _Patience:
    """Repeats requests while the agent restarts or has no database, within the hook's time."""

    def __init__(self, files: Files, patience_s: float = STALL_S / 3) -> None:
        self._files = files
        self._patience_s = patience_s
        self._end = monotonic() + patience_s

    def until_answered(self, name: str, arg: str, body: bytes = b"") -> bytes:
        while True:
            try:
                answer = self._files.ask(name, arg, body, timeout_s=min(ANSWER_S, self._patience_s))
            except AgentUnavailable:
                if monotonic() > self._end:
                    raise
                from time import sleep

                sleep(0.5)
                continue
            self._end = monotonic() + self._patience_s
            return answer


# -- JOB_EXIT


def park(files: Files, conf: dict[str, str], body: bytes, report: Request, start: float) -> str | bytes:
    """Stage the job's outputs; return the directory's name.

    Without outputs, or if staging fails, return the ad that JOB_EXIT has to report instead.
    """
    from fetchwork.sandbox.checkpoint import read
    from fetchwork.sandbox.failure import of_output
    from fetchwork.sandbox.leave import Ended, leave, park_report
    from fetchwork.sandbox.parking import SUFFIX

    end = start + float(conf.get("job_exit_timeout_s", "30")) - RESERVE_S
    signal(SIGALRM, _too_late)
    _set_timer(max(1.0, end - monotonic() + 2.0))
    status = _status_of(body)
    if not status and b"\nJobPid = " not in b"\n" + body:
        # it never ran
        return body
    evicted, unwanted = report.arg == "evict" or not status, report.arg in ("remove", "hold")
    full = ""
    try:
        how = files.ask("output_plan", "", timeout_s=QUESTION_S).split(b"\n")
        evicted = evicted or b"vacated" in how
        unwanted = unwanted or b"unwanted" in how
        full = full_of(how)
    except FetchworkError:
        # without an agent the starter's reason decides
        pass
    try:
        if "spool" not in conf:
            raise of_output("hook.conf names no spool in which files can be staged", 2)
        ended = Ended(evicted=evicted, unwanted=unwanted, status=status, full=full)
        directory = conf["spool"] + SUFFIX
        progress = read(posix.getcwd())
        if progress is not None and progress.failed is not None and not evicted:
            held = _with_failure(body, TransferFailure(*progress.failed))
            # the checkpoints saved before are uploaded before the run ends
            more = {"how": "failure", "after": progress.parked(directory)}
            return park_report(directory, encode_request(_with_body(report, held)), more) or held

        return (
            leave(posix.getcwd(), directory, ended, encode_request(report), end, sign_with(files, end))
            or body
        )
    except TransferFailure as exc:
        failure = exc
    except Exception as exc:
        # the report must not be lost, even if the job has spoilt its sandbox
        number = exc.errno if isinstance(exc, OSError) and exc.errno else 5
        said = str(exc) if isinstance(exc, FetchworkError | OSError) else f"{type(exc).__name__}: {exc}"
        failure = of_output(one_line(said, 400), number)
    # without its output the job is not complete
    return _with_failure(body, failure)


def _too_late(*_: object) -> None:
    raise FetchworkError("the files were not staged in the time that HTCondor gives JOB_EXIT")


def sign_with(files: Files, end: float | None = None) -> "Sign":
    """Return a function that gets a presigned URL; by default it may take as long as for inputs."""
    from fetchwork.sandbox.jsontext import to_json

    def sign(url: str) -> str:
        patience_s = STALL_S / 3 if end is None else end - monotonic()
        return _Patience(files, patience_s).until_answered("output_url", to_json(url)).decode()

    return sign


def full_of(how: list[bytes]) -> str:
    """The reason in ``output_plan``'s answer why the job's account may stage no more; empty if it may."""
    return next((line[5:].decode("utf-8", "replace") for line in how if line.startswith(b"full ")), "")


def _with_body(report: Request, body: bytes) -> Request:
    return Request(
        report.name, body, keyword=report.keyword, arg=report.arg, slot=report.slot, written=report.written
    )


def _with_failure(body: bytes, failure: TransferFailure) -> bytes:
    text = one_line(failure.reason, 800).replace("\\", "/").replace('"', "'")
    line = f'FetchWorkTransferFailure = "{failure.code} {failure.subcode} {text}"\n'
    return body + (b"" if body.endswith(b"\n") else b"\n") + line.encode("utf-8", "replace")


def tell_parked(files: Files, reason: str, name: str) -> None:
    """Announce the staged directory to the agent, which otherwise finds it at its next sweep."""
    try:
        files.ask("job_exit", reason, b'FetchWorkParked = "%s"\n' % name.encode(), QUESTION_S)
    except FetchworkError:
        pass
    finally:
        files.close()


def _status_of(body: bytes) -> dict[str, int]:
    from fetchwork.hook.jobcheck import read_literals

    found = read_literals(body, frozenset(("exitcode", "exitsignal", "exitbysignal")))
    status = {}
    for name, key in (("ExitCode", "exitcode"), ("ExitSignal", "exitsignal")):
        text = found.get(key)
        if text is not None and text.lstrip("-").isdecimal():
            status[name] = int(text)
    if found.get("exitbysignal") == "false":
        status.pop("ExitSignal", None)
    return status
