"""Finds problems at which the starter would fail, before the job starts and as the job's user.

A job whose Cmd does not exist ends with JOB_EXIT ``evict`` and without a reason. PREPARE_JOB runs just
before, as the same account and on the same file systems, so it can find the reason. It uses HTCondor's words
for the hold (os_proc.cpp, user_proc.cpp, baseshadow.cpp). To save CPU, it uses built-in modules, and its own
reader for the few attributes that it needs instead of the ClassAd library. It does not check expressions, or
problems that only the start itself shows.
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
        "args",
        "arguments",
        "environment",
        "wantcontainer",
        "wantsif",
        "wantdockerimage",
        "wantsandboximage",
        "containerimage",
        "singularityimage",
        "fetchworksandbox",
    )
)
# errno.h
_ENOENT, _EACCES, _ENOTDIR, _EISDIR = 2, 13, 20, 21


def find_problem(ad: bytes, *, is_filled: bool = False) -> str:
    """Return the problem of the job of an old-syntax ad, in one line; empty if there is no problem.

    ``is_filled``: the inputs are in the sandbox now, and the checks that do not depend on them are done.
    """
    job = read_literals(ad, _WANTED)
    iwd = job.get("iwd", ".")
    problem = ""
    # a sandbox is filled later
    if iwd is not None and job.get("fetchworksandbox") != "true":
        problem = _check_directory(iwd) or _check_files(job, iwd)
    return problem or _check_quoting(job) or _check_container(job, is_filled)


def read_literals(ad: bytes, wanted: frozenset[str]) -> dict[str, str | None]:
    """Return the wanted attributes as text, by lower-case name; None for an expression."""
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
        # in old syntax a backslash escapes only a quote
        return value[1:-1].replace('\\"', '"')
    if value.startswith('eval("\\"') and value.endswith('\\"")'):
        # fetchwork prints a string with control characters as a literal of new syntax, which has escapes
        inner = value[6:-2].replace('\\"', '"')[1:-1].encode("utf-8", "surrogateescape")
        return unicode_escape_decode(inner)[0].encode("latin-1").decode("utf-8", "surrogateescape")
    return None


def _check_directory(path: str) -> str:
    number = _errno_of(path, "directory", posix.X_OK, _ENOTDIR)
    return f"Cannot access initial working directory {path}: {posix.strerror(number)}" if number else ""


def _check_files(job: dict[str, str | None], iwd: str) -> str:
    # a container brings its own Cmd
    in_container = _in_container(job)
    cmd = job.get("cmd", "")
    if cmd is not None and not in_container:
        problem = _check_cmd(cmd, job, iwd)
        if problem:
            return problem
    path = job.get("in")
    if path:
        number = _errno_of(join(iwd, path), "any", posix.R_OK, 0)
        if number:
            return _not_opened(join(iwd, path), "input", number)
    for name, stream in (("out", "output"), ("err", "error")):
        path = job.get(name)
        number = _errno_of_writing(join(iwd, path)) if path else 0
        if path and number:
            return _not_opened(join(iwd, path), stream, number)
    return ""


def _not_opened(path: str, stream: str, number: int) -> str:
    return f"Failed to open '{path}' as standard {stream}: {posix.strerror(number)} (errno {number})"


def _check_cmd(cmd: str, job: dict[str, str | None], iwd: str) -> str:
    if not cmd:
        return "the job has no Cmd"
    path = join(iwd, cmd)
    cause = ""
    number = _errno_of(path, "file", posix.X_OK, _EACCES)
    if not number:
        cause = _check_interpreter(path)
        number = _ENOENT if cause else 0
    if not number:
        return ""
    arguments = job.get("arguments")
    words = (job.get("args") or "").split() if arguments is None else split_words(arguments)
    given = " with arguments " + " ".join(map(quoted_word, words)) if words else ""
    return f"Failed to execute '{path}'{given}: {cause}(errno={number}: '{posix.strerror(number)}')"


def _check_interpreter(path: str) -> str:
    # if a script's interpreter is missing, the kernel's error is that the script does not exist
    try:
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        # a program may be executable and not readable
        return ""
    try:
        head = posix.read(fd, 256)
    except OSError:
        return ""
    finally:
        posix.close(fd)
    words = head[2:].split(b"\n", 1)[0].split()
    if not head.startswith(b"#!") or not words or not words[0].startswith(b"/"):
        return ""
    if _errno_of(words[0], "any", posix.F_OK, 0) != _ENOENT:
        return ""
    interpreter = words[0].decode("utf-8", "replace")
    return f"invalid interpreter ({interpreter}) specified on first line of script "


def _errno_of_writing(path: str) -> int:
    """The error number of opening a file to write, which may create it; 0 if that succeeds."""
    number = _errno_of(path, "no directory", posix.W_OK, _EISDIR)
    if number != _ENOENT:
        return number
    return _errno_of(path.rpartition("/")[0] or "/", "directory", posix.W_OK | posix.X_OK, _ENOTDIR)


def _errno_of(path: str | bytes, type_of: str, right: int, otherwise: int) -> int:
    """The error number of using a path with this right; ``otherwise`` if it has another type, 0 if it works.

    The types are "directory", "file" (a regular one), "no directory" and "any".
    """
    try:
        mode = posix.stat(path).st_mode
    except OSError as exc:
        return exc.errno or _ENOENT
    except ValueError:
        # a path with a NUL character: it is left to the starter
        return 0
    is_type = {
        "directory": S_ISDIR(mode),
        "file": S_ISREG(mode),
        "no directory": not S_ISDIR(mode),
        "any": True,
    }
    if not is_type[type_of]:
        return otherwise
    return 0 if posix.access(path, right) else _EACCES


def _check_quoting(job: dict[str, str | None]) -> str:
    for name in ("Arguments", "Environment"):
        text = job.get(name.lower())
        # a quote inside quotes is doubled, so an even number of quotes is balanced
        if text and text.count("'") % 2:
            return f"{name} has an unbalanced single quote"
    for word in split_words(job.get("environment") or ""):
        if word.find("=") < 1:
            # the message does not show the word, which may be part of a secret
            return "Environment has a word that is not NAME=VALUE"
    return ""


def split_words(text: str) -> list[str]:
    """The words of HTCondor's V2 syntax: blanks separate, single quotes group, two of them are one."""
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


def quoted_word(word: str) -> str:
    """A word as HTCondor shows it, with quotes around the characters that need them."""
    shown = "" if word else "''"
    for char in word:
        if char not in " \t\n\r\v'":
            shown += char
            continue
        shown = shown[:-1] if shown.endswith("'") else shown + "'"
        shown += ("''" if char == "'" else char) + "'"
    return shown


def _characters(text: str) -> list[str]:
    # a doubled quote inside quotes becomes the two-character part "''", which stands for one quote
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


def _check_container(job: dict[str, str | None], is_filled: bool) -> str:
    if not _in_container(job):
        return ""
    from fetchwork.sandbox.container import problem_of, problem_of_image

    image = job.get("containerimage") or ""
    if "://" not in image and job.get("fetchworksandbox") != "true":
        image = join(job.get("iwd") or ".", image)
    elif "://" not in image:
        # the image is transferred later
        image = ""
    if is_filled:
        # the runtime was checked before the inputs came
        return problem_of_image(image)
    return problem_of(image, by_configuration=job.get("containerimage") is None)


def _in_container(job: dict[str, str | None]) -> bool:
    wants = ("wantcontainer", "wantsif", "wantdockerimage", "wantsandboximage")
    return any(job.get(name) == "true" for name in wants) or bool(job.get("singularityimage"))


def join(directory: str, path: str) -> str:
    """Return a job's path, which may be relative to its Iwd, as a full path."""
    return path if path.startswith("/") else f"{directory}/{path}"
