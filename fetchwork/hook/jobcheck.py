"""Finds, as the job's user and before the start, the problems over which the starter would fail.

No hook ever receives the starter's own error text: a job whose Cmd does not exist ends with JOB_EXIT
``evict`` and without a reason. PREPARE_JOB runs just before, as the same account and on the same file
systems, so it can find the reason. It costs the hook's CPU budget: it uses built-in modules, and in place of
the ClassAd library a reader of the few attributes that it needs. Expressions are left to the starter.
"""

import posix
from _codecs import unicode_escape_decode
from _stat import S_ISDIR, S_ISREG

_WANTED = frozenset(
    (
        "cmd",
        "iwd",
        "in",
        "out",
        "err",
        "arguments",
        "environment",
        "wantdocker",
        "wantcontainer",
        "fetchworksandbox",
    )
)
# where condor_starter looks although its own PATH may be bare
_PATH = b"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_CAUSES = {
    2: "does not exist",
    13: "is not accessible to this account",
    20: "lies under a file, not a directory",
}


def find_problem(ad: bytes) -> str:
    """Return the problem of the job of an old-syntax ad, in one line; empty where there is none."""
    job = read_literals(ad, _WANTED)
    iwd = job.get("iwd", ".")
    problem = ""
    # into a sandbox everything comes later
    if iwd is not None and job.get("fetchworksandbox") != "true":
        problem = _check_directory(iwd) or _check_files(job, iwd)
    return problem or _check_quoting(job) or _check_runtime(job)


def read_literals(ad: bytes, wanted: frozenset[str]) -> dict[str, str | None]:
    """Return the wanted attributes as text, by lower-case name; None for one that is an expression."""
    literals: dict[str, str | None] = {}
    for line in ad.decode("utf-8", "surrogateescape").split("\n"):
        name, equals, value = line.partition(" = ")
        name = name.lower()
        if equals and name in wanted:
            literals[name] = _literal(value.rstrip("\r"))
    return literals


def _literal(value: str) -> str | None:
    if value in ("true", "false") or value.isdecimal():
        return value
    if len(value) >= 2 and value[0] == value[-1] == '"':
        # in old syntax a backslash is itself, but before a quote
        return value[1:-1].replace('\\"', '"')
    if value.startswith('eval("\\"') and value.endswith('\\"")'):
        # how fetchwork prints a string with control characters: a literal of new syntax, which has escapes
        inner = value[6:-2].replace('\\"', '"')[1:-1].encode("utf-8", "surrogateescape")
        return unicode_escape_decode(inner)[0].encode("latin-1").decode("utf-8", "surrogateescape")
    return None


def _check_directory(path: str) -> str:
    cause = _stat(path)
    if isinstance(cause, str):
        return f"Iwd '{path}' {cause}"
    if not S_ISDIR(cause.st_mode):
        return f"Iwd '{path}' is not a directory"
    return "" if posix.access(path, posix.X_OK) else f"Iwd '{path}' {_CAUSES[13]}"


def _check_files(job: dict[str, str | None], iwd: str) -> str:
    # a container brings its own Cmd
    in_container = "true" in (job.get("wantdocker"), job.get("wantcontainer"))
    cmd = job.get("cmd", "")
    if cmd is not None and not in_container:
        problem = _check_cmd(cmd, iwd)
        if problem:
            return problem
    path = job.get("in")
    if path:
        cause = _stat(join(iwd, path))
        if isinstance(cause, str):
            return f"In '{path}' {cause}"
        if S_ISDIR(cause.st_mode):
            return f"In '{path}' is a directory"
        if not posix.access(join(iwd, path), posix.R_OK):
            return f"In '{path}' is not readable by this account"
    for name in ("Out", "Err"):
        path = job.get(name.lower())
        problem = _check_writable(name, path, join(iwd, path)) if path else ""
        if problem:
            return problem
    return ""


def _check_cmd(cmd: str, iwd: str) -> str:
    if not cmd:
        return "the job has no Cmd"
    path = join(iwd, cmd)
    cause = _stat(path)
    if isinstance(cause, str):
        return f"Cmd '{path}' {cause}"
    if not S_ISREG(cause.st_mode):
        return f"Cmd '{path}' is {'a directory' if S_ISDIR(cause.st_mode) else 'not a regular file'}"
    if not posix.access(path, posix.X_OK):
        return f"Cmd '{path}' is not executable by this account"
    return _check_interpreter(path)


def _check_interpreter(path: str) -> str:
    # the kernel says of a script whose interpreter is missing that the script does not exist
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        # executable, but not readable: a program may be so
        return ""
    try:
        head = posix.read(fd, 256)
    except OSError as exc:
        return f"Cmd '{path}' can't be read: {exc.strerror}"
    finally:
        posix.close(fd)
    words = head[2:].split(b"\n", 1)[0].split()
    if not head.startswith(b"#!") or not words or not words[0].startswith(b"/"):
        return ""
    interpreter = words[0].decode("utf-8", "replace")
    cause = _stat(words[0])
    return f"Cmd '{path}': its interpreter '{interpreter}' {cause}" if isinstance(cause, str) else ""


def _check_writable(name: str, shown: str, path: str) -> str:
    cause = _stat(path)
    if not isinstance(cause, str):
        if S_ISDIR(cause.st_mode):
            return f"{name} '{shown}' is a directory"
        return "" if posix.access(path, posix.W_OK) else f"{name} '{shown}' is not writable by this account"
    if cause is not _CAUSES[2]:
        return f"{name} '{shown}' {cause}"
    parent = path.rpartition("/")[0] or "/"
    cause = _stat(parent)
    if isinstance(cause, str):
        return f"{name} '{shown}' can't be created: directory '{parent}' {cause}"
    if not posix.access(parent, posix.W_OK | posix.X_OK):
        return f"{name} '{shown}' can't be created: directory '{parent}' is not writable by this account"
    return ""


def _check_quoting(job: dict[str, str | None]) -> str:
    for name in ("Arguments", "Environment"):
        text = job.get(name.lower())
        # a quote inside quotes is written twice, so they balance where their number is even
        if text and text.count("'") % 2:
            return f"{name} has an unbalanced single quote"
    for word in _split(job.get("environment") or ""):
        if word.find("=") < 1:
            # the word may be half of a secret
            return "Environment has a word that is not NAME=VALUE"
    return ""


def _split(text: str) -> list[str]:
    """The words of HTCondor's V2 syntax: blanks separate, single quotes group, doubled they are one."""
    words = []
    word = ""
    started = quoted = False
    for part in _characters(text):
        if part == "'":
            quoted, started = not quoted, True
        elif part in " \t\n\r" and not quoted:
            if started:
                words.append(word)
            word, started = "", False
        else:
            word, started = word + part[-1], True
    return [*words, word] if started else words


def _characters(text: str) -> list[str]:
    # inside quotes a doubled one becomes the two-character part "''", which stands for itself
    parts: list[str] = []
    quoted = False
    at = 0
    while at < len(text):
        char = text[at]
        if char == "'" and quoted and text[at + 1 : at + 2] == "'":
            parts.append("''")
            at += 2
            continue
        if char == "'":
            quoted = not quoted
        parts.append(char)
        at += 1
    return parts


def _check_runtime(job: dict[str, str | None]) -> str:
    # without a runtime HTCondor starts a container job bare on the host
    if job.get("wantdocker") == "true" and not _on_path("docker"):
        return "WantDocker is true, and this host has no docker"
    if job.get("wantcontainer") == "true" and not (_on_path("apptainer") or _on_path("singularity")):
        return "WantContainer is true, and this host has neither apptainer nor singularity"
    return ""


def _on_path(program: str) -> bool:
    path = posix.environ.get(b"PATH", b"") + b":" + _PATH
    return any(
        directory.startswith(b"/") and posix.access(directory + b"/" + program.encode(), posix.X_OK)
        for directory in path.split(b":")
    )


def join(directory: str, path: str) -> str:
    """Return a path of a job, which is relative to its Iwd."""
    return path if path.startswith("/") else f"{directory}/{path}"


def _stat(path: str | bytes) -> "posix.stat_result | str":
    try:
        return posix.stat(path)
    except OSError as exc:
        return _CAUSES.get(exc.errno or 0) or f"can't be used: {exc.strerror}"
    except ValueError:
        return "holds a NUL character"
