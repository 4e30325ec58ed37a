"""Installs the hooks in the directories from which HTCondor runs them, with their modules and ``hook.conf``.

A directory serves one keyword and needs nothing outside it: job users must be able to run its hooks, and may
not be able to enter the environment that fetchwork itself is installed in.

    DIR/fetch_work ...    the six executables, started by the interpreter chosen here
    DIR/checkpointed      what runs jobs that save checkpoints
    DIR/hook.conf         keyword, socket, spool, deadlines
    DIR/lib -> lib-HASH   the modules, compiled: those who run them can't write

Compiled hooks take the names of the six; the hooks in Python are then DIR/fetch_work.py ..., for rare cases.

Installing again while slots run is safe: every file is replaced by renaming, the modules all at once.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from fetchwork.config import HostConfig
from fetchwork.deploy.compiled import compile_hook, is_compiled
from fetchwork.errors import ConfigError, FetchworkError
from fetchwork.hook.sandboxed import SAVER
from fetchwork.hook.spool import Spool
from fetchwork.hook.wire import HOOKS, RUNNER

#: the modules that hooks import, relative to the package's directory
MODULES = (
    "__init__.py",
    "hookerrors.py",
    "codes.py",
    "hook/__init__.py",
    "hook/wire.py",
    "hook/client.py",
    "hook/link.py",
    "hook/handover.py",
    "hook/siblings.py",
    "hook/adfiles.py",
    "hook/jobcheck.py",
    "hook/jobtail.py",
    "hook/spool.py",
    "hook/sandboxed.py",
    "hook/checkpointed.py",
    "hook/credentialfiles.py",
    "sandbox/__init__.py",
    "sandbox/checkpoint.py",
    "sandbox/container.py",
    "sandbox/credentials.py",
    "sandbox/failure.py",
    "sandbox/destination.py",
    "sandbox/fill.py",
    "sandbox/hostsettings.py",
    "sandbox/jsontext.py",
    "sandbox/leave.py",
    "sandbox/names.py",
    "sandbox/outputs.py",
    "sandbox/parking.py",
    "sandbox/plugindata.py",
    "sandbox/plugins.py",
    "sandbox/reaching.py",
    "sandbox/remaps.py",
    "sandbox/spooldir.py",
)
_PACKAGE = Path(__file__).resolve().parents[1]
#: seconds that FETCH_WORK waits beyond max_fetch_wait_s
_WAIT_MARGIN_S = 45
#: JOB_EXIT must be done so many seconds before the starter kills it
_EXIT_MARGIN_S = 4
# bytes of a Unix socket's address (sun_path), with its NUL
_SOCKET_BYTES = 108
_COMPILE = """
import py_compile, sys
for path in sys.argv[1:]:
    py_compile.compile(path, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""


def install(
    directory: Path | str,
    *,
    keyword: str,
    socket: Path | str,
    spool: Path | str | None = None,
    python: Path | str | None = None,
    deadline_s: float | None = None,
    job_exit_deadline_s: float | None = None,
    job_exit_timeout_s: int | None = None,
    compiled: bool | None = None,
    compiler_options: tuple[str, ...] | None = None,
) -> list[Path]:
    """Install the hooks of one keyword into ``directory`` and return the executables.

    ``python`` runs the hooks (default: /usr/bin/python3). ``compiled``: None leaves the directory's hooks
    compiled or not, as they are. Raises ConfigError with every setting that can't work, and FetchworkError
    if the file system or compiler fails.
    """
    directory = Path(directory)
    if compiled is None:
        compiled = is_compiled(directory)
    interpreter = Path(python or "/usr/bin/python3")
    settings = {
        "keyword": keyword,
        "socket": socket,
        "spool": spool,
        "deadline_s": deadline_s,
        "job_exit_deadline_s": job_exit_deadline_s,
        "job_exit_timeout_s": job_exit_timeout_s,
    }
    problems = [*_check_settings(settings, interpreter), *_check_directory(directory)]
    if problems:
        raise ConfigError(problems)
    try:
        _make_directories(directory)
        _install_modules(directory, interpreter)
        _replace(directory / "hook.conf", _conf_text(settings), 0o644)
        written = [directory / name for name in HOOKS]
        for path in (*written, directory / SAVER):
            text = (_hooks_source() / path.name).read_text()
            _, _, rest = text.partition("\n")
            script = path.with_name(f"{path.name}.py") if compiled and path in written else path
            _replace(script, f"#!{interpreter} -IS\n{rest}", 0o755)
        if compiled:
            _install_compiled(directory, compiler_options)
        else:
            for path in written:
                path.with_name(f"{path.name}.py").unlink(missing_ok=True)
            (directory / RUNNER).unlink(missing_ok=True)
    except OSError as exc:
        raise FetchworkError(
            f"cannot install hooks in '{directory}': {exc.strerror}: '{exc.filename}'"
        ) from exc
    return written


def fetch_deadline_s(max_fetch_wait_s: int) -> int | None:
    """FETCH_WORK's deadline in seconds for this wait in the agent; None if the default is enough."""
    return max_fetch_wait_s + _WAIT_MARGIN_S if max_fetch_wait_s > 30 else None


def install_host(
    config: HostConfig, *, python: Path | str | None = None, compiled: bool | None = None
) -> dict[str, list[Path]]:
    """Install every keyword of a host file, and make the agent's spool; return the executables by keyword."""
    spool, account = config.agent.spool, config.agent.user
    try:
        owner, group = os.geteuid(), os.getegid()
        if account and owner == 0:
            owner, group = pwd.getpwnam(account)[2:4]
    except KeyError:
        raise ConfigError([f"agent.user: account '{account}' does not exist on this host"]) from None
    # the agent makes files in these two, and every account must be able to enter them
    for directory in {config.socket.parent, spool.parent}:
        _give_to_agent(directory, owner)
    Spool(str(spool)).make(owner, group)
    return {
        name: install(
            config.hooks(name),
            keyword=name,
            socket=config.socket,
            spool=spool,
            python=python,
            compiled=compiled,
            deadline_s=fetch_deadline_s(keyword.max_fetch_wait_s),
            job_exit_deadline_s=max(3, keyword.job_exit_timeout_s - _EXIT_MARGIN_S)
            if keyword.job_exit_timeout_s < 25
            else None,
            job_exit_timeout_s=keyword.job_exit_timeout_s,
        )
        for name, keyword in config.keywords.items()
    }


def _give_to_agent(directory: Path, owner: int) -> None:
    """Make a directory that the agent, uid ``owner``, makes files in.

    One that root made earlier and that is fetchwork's by its name becomes the agent's too.
    """
    try:
        for made in _make_directories(directory):
            os.chown(made, owner, -1)
        if os.geteuid() == 0 and directory.name == "fetchwork" and directory.stat().st_uid == 0:
            os.chown(directory, owner, -1)
    except OSError as exc:
        raise FetchworkError(f"cannot make directory '{exc.filename}': {exc.strerror}") from exc


def _make_directories(directory: Path) -> list[Path]:
    """Make a directory and its parents, which every account may enter; return the new ones."""
    made = [each for each in (directory, *directory.parents) if not each.exists()][::-1]
    for each in made:
        each.mkdir()
        each.chmod(0o755)
    return made


def _hooks_source() -> Path:
    # in a wheel they are inside the package, in a checkout beside it
    inside = _PACKAGE / "_hooks"
    return inside if inside.is_dir() else _PACKAGE.parent / "hooks"


def _check_settings(settings: Mapping[str, object], interpreter: Path) -> Iterator[str]:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", str(settings["keyword"])):
        yield f"keyword '{settings['keyword']}': allowed are letters, digits and _, a letter first"
    for name in ("socket", "spool"):
        value = settings[name]
        if value is not None and not re.fullmatch(r"/[^\n\r\0]*", str(value)):
            yield f"{name} '{value}': allowed is an absolute path without line breaks"
    if len(os.fsencode(str(settings["socket"]))) >= _SOCKET_BYTES:
        yield f"socket '{settings['socket']}': allowed are {_SOCKET_BYTES - 1} bytes"
    for name in ("deadline_s", "job_exit_deadline_s"):
        seconds = settings[name]
        if isinstance(seconds, int | float) and not 1 <= seconds <= 86400:
            yield f"{name} {seconds}: allowed are 1 to 86400"
    # the kernel cuts the first line of a script at 255 bytes, and ends the interpreter's name at a blank
    if not re.fullmatch(r"/[^\s\0]{1,200}", str(interpreter)):
        yield f"python '{interpreter}': allowed is an absolute path of up to 200 characters without blanks"
    elif not os.access(interpreter, os.X_OK):
        yield f"python '{interpreter}': does not exist or is not executable; name another with --python"


def _check_directory(directory: Path) -> Iterator[str]:
    if not directory.is_absolute():
        yield f"directory '{directory}': allowed is an absolute path"
        return
    for each in (directory, *directory.parents):
        try:
            mode = each.stat().st_mode
        except OSError:
            continue
        # HTCondor refuses hooks in a world-writable directory; below one, an account could rename it
        if mode & stat.S_IWOTH and (each == directory or not mode & stat.S_ISVTX):
            yield f"directory '{each}' is world-writable: HTCondor does not run hooks from there"
        if os.geteuid() == 0 and not mode & stat.S_IXOTH:
            yield f"directory '{each}' is closed to job users, who run half of the hooks: chmod o+x"
    if directory.exists() and not directory.is_dir():
        yield f"'{directory}' is not a directory"


def _install_modules(directory: Path, interpreter: Path) -> None:
    sources = {name: (_PACKAGE / name).read_bytes() for name in MODULES}
    version = _run(interpreter, "import sys; print(sys.version)")
    digest = hashlib.sha256(repr((sorted(sources.items()), version)).encode()).hexdigest()[:16]
    target = directory / f"lib-{digest}"
    if not target.is_dir():
        building = directory / f".{target.name}-{os.getpid()}"
        package = building / "fetchwork"
        for name, data in sources.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_bytes(data)
        _run(interpreter, _COMPILE, *(str(package / name) for name in sources))
        for path in (building, *building.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        building.rename(target)
    link = directory / f".lib-{os.getpid()}"
    link.symlink_to(target.name)
    link.rename(directory / "lib")
    for old in directory.glob("lib-*"):
        if old != target:
            shutil.rmtree(old)


def _install_compiled(directory: Path, options: tuple[str, ...] | None) -> None:
    """Build the compiled hook and install it under the six names and as the runner: one file, hard links."""
    built = directory / f".compiled-{os.getpid()}"
    try:
        compile_hook(built, options)
        built.chmod(0o755)
        for name in (*HOOKS, RUNNER):
            new = directory / f".{name}-{os.getpid()}"
            new.hardlink_to(built)
            new.rename(directory / name)
    finally:
        built.unlink(missing_ok=True)


def _run(interpreter: Path, code: str, *args: str) -> str:
    try:
        done = subprocess.run(
            [interpreter, "-I", "-S", "-c", code, *args],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise FetchworkError(f"'{interpreter}' is not a working Python 3: {exc}") from exc
    return done.stdout


def _conf_text(settings: Mapping[str, object]) -> str:
    lines = [
        "# made by 'fetchwork hooks install'; read by each hook in this directory, so it holds no secrets"
    ]
    lines += [f"{name} = {value}" for name, value in settings.items() if value is not None]
    return "\n".join(lines) + "\n"


def _replace(path: Path, text: str, mode: int) -> None:
    new = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        new.write_text(text)
        new.chmod(mode)
        new.rename(path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        raise
