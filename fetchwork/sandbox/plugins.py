"""HTCondor's file transfer plugins: which schemes they move, and runs of them within bounds.

A plugin is a program of the host or of the job. ``curl_plugin`` stops at its first failure, tries a refused
connection for minutes, and leaves empty files after a failure. So servers that refuse connections are left
out first (``reaching``), each run ends with all its processes at a time limit, and the next run gets the
files that a plugin said nothing of.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fetchwork.sandbox import hostsettings, names, plugindata, reaching
from fetchwork.sandbox.failure import FileFailure, open_regular
from fetchwork.sandbox.remaps import unescaped

#: seconds for a plugin to say which schemes it moves
QUERY_S = 20.0
#: HTCondor's own subcode for a plugin that did not end in time
TIMED_OUT = 62
#: HTCondor's results for a scheme without a plugin, a plugin that can't be run, one that says nothing
NO_PLUGIN, NOT_EXECUTABLE, NO_RESULT = -1001, -1003, -1004
#: the exit status of curl_plugin for a file that it could not move
_FAILED = 1
#: bytes of a plugin's answer
_MAX_ANSWER = 1 << 20
_PRIVATE = ("CONDOR_INHERIT", "CONDOR_PRIVATE_INHERIT")


class Move(NamedTuple):
    """One file between a URL and an absolute path; messages show ``known`` in place of a secret URL."""

    url: str
    path: str
    known: str = ""

    @property
    def shown(self) -> str:
        """The URL in messages: a presigned URL would give their readers the object."""
        return self.known or self.url


class Moved(NamedTuple):
    """The result of a move: its bytes, or why it failed."""

    move: Move
    bytes: int = 0
    failure: FileFailure | None = None


class Plugin(NamedTuple):
    """A plugin: its path, its schemes, whether one run takes several files, and its protocol."""

    path: str
    schemes: frozenset[str]
    multiple: bool
    protocol: int = 2


def ask(path: str, environ: Mapping[str, str] | None = None) -> Plugin | None:
    """The plugin at a path, as it describes itself; None if it does not answer as a plugin."""
    try:
        done = subprocess.run(
            [path, "-classad"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=QUERY_S,
            env=None if environ is None else dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    ad = read_lines(done.stdout[:_MAX_ANSWER].decode("utf-8", "replace"))
    schemes = frozenset(word.lower() for word in names.words_of(ad.get("supportedmethods")))
    if done.returncode or not schemes:
        return None
    multiple = ad.get("multiplefilesupport", "").lower() == "true"
    return Plugin(path, schemes, multiple, _protocol(ad.get("protocolversion", "")))


def _protocol(said: str) -> int:
    """The protocol that a plugin claims to speak; HTCondor accepts 1 to 100."""
    number = int(said) if len(said) <= 3 and said.isdecimal() else 0
    return number if 1 <= number <= 100 else 2


def find() -> dict[str, Plugin]:
    """This host's plugins by scheme: those of FILETRANSFER_PLUGINS that answer, a scheme's last one."""
    try:
        (listed,) = hostsettings.ask("FILETRANSFER_PLUGINS")
    except hostsettings.SettingsUnknown:
        return {}
    known: dict[str, Plugin] = {}
    for path in names.words_of(listed.replace("\n", ",")):
        plugin = ask(path) if path.startswith("/") else None
        if plugin is not None:
            known.update(dict.fromkeys(plugin.schemes, plugin))
    return known


def of_job(value: object, sandbox: str) -> dict[str, str]:
    """The plugins that a job brings: schemes and their paths, from ``"m1,m2=path;m3=path"``."""
    brought: dict[str, str] = {}
    for part in value.split(";") if isinstance(value, str) else []:
        schemes, equals, path = part.partition("=")
        if equals and path.strip():
            here = os.path.join(sandbox, names.base_name(path.strip()))
            brought.update({scheme.lower(): here for scheme in names.words_of(schemes)})
    return brought


def runner(
    of_host: Mapping[str, Sequence[object]], ad: Mapping[str, object], sandbox: str, time_limit_s: float
) -> "Runner":
    """A Runner of the job's plugins and the host's, which are, by scheme: path, several files, protocol."""
    known = {
        # the notes of a job that began under an earlier version have no protocol
        scheme: Plugin(
            str(path), frozenset((scheme,)), bool(multiple), *(int(str(part)) for part in protocol)
        )
        for scheme, (path, multiple, *protocol) in of_host.items()
    }
    for scheme, path in of_job(ad.get("TransferPlugins"), sandbox).items():
        asked = ask(path)
        if asked is not None:
            known[scheme] = asked
    return Runner(known, sandbox, time_limit_s, ad)


class Runner:
    """Runs plugins in a sandbox; ``plugins`` are by scheme, ``time_limit_s`` is for each run.

    ``ad`` is the job's, with its attributes for plugins.
    """

    def __init__(
        self,
        plugins: Mapping[str, Plugin],
        sandbox: str,
        time_limit_s: float,
        ad: Mapping[str, object] | None = None,
    ) -> None:
        self._plugins = plugins
        self._sandbox = sandbox
        self._time_limit_s = time_limit_s
        self._ad = ad or {}
        self._runs = 0

    def move(self, moves: Sequence[Move], *, upload: bool, end: float = float("inf")) -> list[Moved]:
        """Move all files, each scheme's by its plugin, until the monotonic time ``end``."""
        done: list[Moved] = []
        groups: dict[str, list[Move]] = {}
        for move in moves:
            groups.setdefault(names.scheme_of(move.url), []).append(move)
        for scheme, group in groups.items():
            plugin = self._plugins.get(scheme)
            if plugin is None:
                text = f"no file transfer plugin of this host moves {scheme}:// URLs"
                done += [
                    Moved(one, 0, FileFailure(NO_PLUGIN, f"{text} ( URL file = {one.shown} )"))
                    for one in group
                ]
                continue
            done += self._move(plugin, group, upload, end)
        return done

    def _move(self, plugin: Plugin, group: Sequence[Move], upload: bool, end: float) -> list[Moved]:
        done = [] if upload else _refused(plugin, group)
        refused = {one.move for one in done}
        left = [one for one in group if one not in refused]
        while left:
            part = left if plugin.multiple else left[:1]
            results = self._run(plugin, part, upload, end)
            done += results
            told = {one.move for one in results}
            rest = [one for one in left if one not in told]
            if len(rest) == len(left):
                break
            # a plugin stops at its first failure and says nothing of the files after it
            left = rest
        return done

    def _run(self, plugin: Plugin, moves: Sequence[Move], upload: bool, end: float) -> list[Moved]:
        self._runs += 1
        limit_s = min(self._time_limit_s, end - time.monotonic())
        base = os.path.join(self._sandbox, f".{os.path.basename(plugin.path)}.{self._runs}")
        infile, outfile = f"{base}.in", f"{base}.out"
        try:
            argv = self._command(plugin, moves, upload, infile, outfile)
            code, said = self._wait(argv, limit_s)
            results = _read_results(outfile) if plugin.multiple else []
        except OSError as error:
            text = f"cannot run {plugin.path}: {error.strerror}"
            return [
                Moved(one, 0, FileFailure(NOT_EXECUTABLE, f"{text} ( URL file = {one.shown} )"))
                for one in moves
            ]
        finally:
            for path in (infile, outfile):
                try:
                    os.unlink(path)
                except OSError:
                    pass
        return _judged(plugin, moves, results, code, said, upload)

    def _command(
        self, plugin: Plugin, moves: Sequence[Move], upload: bool, infile: str, outfile: str
    ) -> list[str]:
        if not plugin.multiple:
            (one,) = moves
            return [plugin.path, *((one.path, one.url) if upload else (one.url, one.path))]
        schemes = sorted({names.scheme_of(one.url) for one in moves})
        first, more = plugindata.lines_of(self._ad, schemes, plugin.protocol)
        with open(infile, "w", encoding="utf-8", opener=_anew) as stream:
            for line in first:
                stream.write(f"{line}\n")
            for one in moves:
                path, url = plugindata.quoted(one.path), plugindata.quoted(one.url)
                stream.write(f"[ LocalFileName = {path}; Url = {url}{more} ]\n")
        with open(outfile, "w", encoding="utf-8", opener=_anew):
            pass
        return [plugin.path, "-infile", infile, "-outfile", outfile, *(["-upload"] if upload else [])]

    def _wait(self, argv: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """The exit status, None for a plugin that was killed at the limit, and the end of its stderr."""
        if limit_s <= 0:
            return None, ""
        environ = {name: value for name, value in os.environ.items() if name not in _PRIVATE}
        environ |= {
            "_CONDOR_JOB_AD": os.path.join(self._sandbox, ".job.ad"),
            "_CONDOR_MACHINE_AD": os.path.join(self._sandbox, ".machine.ad"),
            "_CONDOR_SCRATCH_DIR": self._sandbox,
        }
        creds = os.path.join(self._sandbox, ".condor_creds")
        if os.path.isdir(creds):
            environ["_CONDOR_CREDS"] = creds
        with subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._sandbox,
            env=environ,
            start_new_session=True,
        ) as process:
            try:
                _, said = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                # its children too: they are in its session
                os.killpg(process.pid, signal.SIGKILL)
                # not to the end of its stderr: a child with a session of its own may keep that open
                return None, ""
        return process.returncode, said[-2000:].decode("utf-8", "replace")


def _refused(plugin: Plugin, moves: Sequence[Move]) -> list[Moved]:
    """The failures of downloads from servers that refuse connections; a plugin would find them much later."""
    if os.path.basename(plugin.path) != reaching.PLUGIN:
        return []
    refusals = reaching.refusals(one.url for one in moves)
    return [
        Moved(one, 0, _failure(plugin, one, refusals[one.url], _FAILED))
        for one in moves
        if one.url in refusals
    ]


def _judged(
    plugin: Plugin,
    moves: Sequence[Move],
    results: Sequence[Mapping[str, str]],
    code: int | None,
    said: str,
    upload: bool,
) -> list[Moved]:
    by_url = {ad.get("transferurl", ""): ad for ad in results}
    judged: list[Moved] = []
    failed = False
    for one in moves:
        ad = by_url.get(one.url)
        if ad is not None and ad.get("transfersuccess", "").lower() == "true":
            judged.append(Moved(one, _size(ad, one, upload)))
        elif ad is not None:
            failed = True
            judged.append(Moved(one, 0, _failure(plugin, one, ad.get("transfererror", "no error"), code)))
        elif not plugin.multiple and code == 0:
            judged.append(Moved(one, _size({}, one, upload)))
        elif not failed:
            # the first file without a result is the one that failed; the others are tried again
            failed = True
            text = (
                "did not end in time"
                if code is None
                else f"gave no result: {said.strip()[-300:] or 'no output'}"
            )
            judged.append(Moved(one, 0, _failure(plugin, one, text, code)))
    if not upload:
        _remove_failed(judged)
    return judged


def _failure(plugin: Plugin, move: Move, text: str, code: int | None) -> FileFailure:
    scheme = names.scheme_of(move.shown)
    if move.known:
        # a plugin may name the whole URL, or its query
        text = text.replace(move.url, move.known).replace(move.url.partition("?")[2], "...")
    return FileFailure(
        _subcode(code),
        f"{os.path.basename(plugin.path)} using protocol {scheme}."
        f" Details: {text} ( URL file = {move.shown} )",
    )


def _subcode(code: int | None) -> int:
    """HTCondor's subcode for a plugin's end: its exit status in the second byte, or its fatal signal."""
    if code is None:
        return TIMED_OUT
    if code < 0:
        return -code
    return code << 8 if code else NO_RESULT


def _remove_failed(judged: Sequence[Moved]) -> None:
    for one in judged:
        if one.failure is not None:
            try:
                os.unlink(one.move.path)
            except OSError:
                pass


def _size(ad: Mapping[str, str], move: Move, upload: bool) -> int:
    text = ad.get("transferfilebytes") or ad.get("transfertotalbytes") or ""
    if text.isdecimal():
        return int(text)
    try:
        return os.stat(move.path).st_size
    except OSError:
        return 0


def _anew(path: str, flags: int) -> int:
    """Open a new file; the job, which knows its name, may have left a pipe or a link there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    return os.open(path, flags | os.O_EXCL, 0o600)


def _read_results(path: str) -> list[dict[str, str]]:
    with open(open_regular(path)[0], encoding="utf-8", errors="replace") as stream:
        return read_ads(stream.read(_MAX_ANSWER))


def read_lines(text: str) -> dict[str, str]:
    """The attributes of an ad in old syntax, by lower-case name; values are text without quotes."""
    ad: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            ad[name.strip().lower()] = _unquoted(value.strip())
    return ad


def read_ads(text: str) -> list[dict[str, str]]:
    """The ads of a text of ads in new syntax; nested ads are skipped."""
    ads: list[dict[str, str]] = []
    part, depth, quoted, escaped = "", 0, False, False
    for char in text:
        if quoted:
            part += char
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
            continue
        if char in "[{":
            depth += 1
            if depth == 1:
                ads.append({})
                part = ""
                continue
        elif char in "]}":
            depth -= 1
            if depth == 0:
                _keep(ads[-1], part)
                part = ""
                continue
        elif char == ";" and depth == 1:
            _keep(ads[-1], part)
            part = ""
            continue
        quoted = char == '"'
        part += char
    return ads


def _keep(ad: dict[str, str], text: str) -> None:
    name, equals, value = text.partition("=")
    if equals:
        ad[name.strip().lower()] = _unquoted(value.strip())


def _unquoted(value: str) -> str:
    if len(value) < 2 or value[0] != '"' or value[-1] != '"':
        return value
    return unescaped(value[1:-1])
