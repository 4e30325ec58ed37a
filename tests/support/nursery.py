"""Forks agents, access points and zygotes for tests, instead of executing them.

The start of such a process is mostly imports. The nursery has imported the modules once. A forked process
gets the arguments, descriptors, limits, environment, directory and account of the execution that it replaces,
and runs the same code. Three things differ: /proc shows the nursery's command line and initial environment,
the nursery is the parent, and Python does not import sitecustomize again. A test that depends on one of them
is marked ``executed``.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import inspect
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pytest

#: modules that start such processes
STARTERS = ("fetchwork.simulate.agents", "fetchwork.ipc.link", "tests.accesspoint.point")
#: first descriptor of those that are moved out of the way
_ASIDE = 500
_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
_ARGUMENTS = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]


class Forked(subprocess.Popen[Any]):
    """A Python program in a fork of this process, with the interface of Popen."""

    def _execute_child(self, *arguments: Any) -> None:
        how = dict(zip(_ARGUMENTS, arguments, strict=True))
        assert (how["preexec_fn"], how["gid"], how["gids"], how["umask"]) == (None, None, None, -1)
        files = {0: how["p2cread"], 1: how["c2pwrite"], 2: how["errwrite"]}
        files = {number: number if own < 0 else own for number, own in files.items()}
        files |= {number: number for number in how["pass_fds"]}
        request = {
            "words": [os.fspath(word) for word in how["args"]],
            "env": dict(os.environ) if how["env"] is None else how["env"],
            "cwd": os.fspath(how["cwd"] or os.getcwd()),
            "uid": os.geteuid() if how["uid"] is None else how["uid"],
            "has_session": how["start_new_session"],
            "limits": [(limit, resource.getrlimit(limit)) for limit in _LIMITS],
            "files": list(files),
        }
        self.pid = self._fork(request, list(files.values()))
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(how[name] for name in pipes))  # type: ignore[attr-defined]

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            _become(request, descriptors)
        return pid


class Nursed(Forked):
    """A Python program in a fork of the nursery, which reaps it."""

    def __init__(self, nursery: bytes, *arguments: Any, **how: Any) -> None:
        self._nursery = nursery
        super().__init__(*arguments, **how)

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        message = json.dumps(request).encode()
        self._answers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._answers.connect(self._nursery)
        socket.send_fds(self._answers, [message], descriptors)
        return int(self._answers.recv(32))

    def _try_wait(self, flags: int) -> tuple[int, int]:
        try:
            status = self._answers.recv(32, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0)
        except BlockingIOError:
            return 0, 0
        self._answers.close()
        # a nursery that has gone cannot tell
        return self.pid, int(status or signal.SIGKILL)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(False):  # type: ignore[attr-defined]
            try:
                pid, status = (0, 0) if self.returncode is not None else self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            finally:
                self._waitpid_lock.release()  # type: ignore[attr-defined]
        return self.returncode


class Subprocess(types.ModuleType):
    """The module ``subprocess``, except that it forks programs of the product."""

    def __init__(self, nursery: bytes | None) -> None:
        super().__init__("subprocess")
        self._nursery = nursery

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, command: Sequence[Any], **how: Any) -> subprocess.Popen[Any]:  # noqa: N802
        if not _is_ours(command):
            return subprocess.Popen(command, **how)
        return Forked(command, **how) if self._nursery is None else Nursed(self._nursery, command, **how)


def _is_ours(command: Sequence[Any]) -> bool:
    words = [word for word in map(str, command) if word != "-P"]
    return words[0] == sys.executable and (
        words[1] == "-c" or (words[1] == "-m" and words[2].startswith("fetchwork."))
    )


@pytest.fixture(scope="session")
def nursery() -> Iterator[bytes]:
    """The address of a session's nursery, which ends with its standard input."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind("")
        listener.listen(100)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.nursery", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        address = listener.getsockname()
    yield address
    process.stdin.close()
    process.wait()


@pytest.fixture(autouse=True)
def forked_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the product's processes that a test starts, unless the test is marked ``executed``."""
    if request.node.get_closest_marker("executed") is None:
        subprocess_ = Subprocess(request.getfixturevalue("nursery"))
        for module in STARTERS:
            monkeypatch.setattr(f"{module}.subprocess", subprocess_)


def main(listener: socket.socket) -> None:
    """Fork a process for each connection, which brings the request and takes the pid and the wait status."""
    load()
    os.chdir("/")
    gc.collect()
    gc.freeze()
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    return
                if key.fileobj is listener:
                    asker = listener.accept()[0]
                    message, descriptors, _, _ = socket.recv_fds(asker, 1 << 20, 100)
                    pid = os.fork()
                    if pid == 0:
                        _become(json.loads(message), descriptors)
                    for descriptor in descriptors:
                        os.close(descriptor)
                    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, asker))
                    asker.send(str(pid).encode())
                else:
                    pid, asker = key.data
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    # the test may be over
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError), asker:
                        asker.send(str(status).encode())


def load() -> None:
    """Import the modules of agents, access points and zygotes."""
    for module in ("fetchwork.agent.main", "fetchwork.accesspoint.main"):
        importlib.import_module(module)
    from fetchwork.accesspoint import child
    from fetchwork.condor import commands
    from fetchwork.matchmaker import worker

    commands.load()
    child.rehearse()
    worker.rehearse()


def _become(request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Be the requested program in this process, a fork, until it ends."""
    status = 1
    try:
        _set_up(request, descriptors)
        _run([word for word in request["words"][1:] if word != "-P"])
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _set_up(request: dict[str, Any], descriptors: list[int]) -> None:
    """Take on the descriptors, signals, limits, environment, directory and account of a request."""
    aside = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _ASIDE) for descriptor in descriptors]
    os.closerange(0, _ASIDE)
    for descriptor, number in zip(aside, request["files"], strict=True):
        os.dup2(descriptor, number)
    os.closerange(_ASIDE, 1 << 20)
    # not closed: they last as long as the process
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    atexit._clear()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["has_session"]:
        os.setsid()
    for limit, values in request["limits"]:
        resource.setrlimit(limit, tuple(values))
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    if request["uid"] != os.geteuid():
        os.setreuid(request["uid"], request["uid"])
    from fetchwork.ipc import link

    # its zygotes are forks of its own, so that they have its account and it for a parent
    link.subprocess = Subprocess(None)  # type: ignore[attr-defined]


def _run(words: list[str]) -> None:
    option, program, *arguments = words
    sys.argv = [option, *arguments]
    if option == "-m":
        sys.argv[0] = program
        # an import of a package may have imported the module already, which runpy would warn of
        sys.modules.pop(program, None)
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
