"""Transfer plugins: the schemes that they report, and limits when they misbehave as curl_plugin does."""

import os
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.process import Process
from fetchwork.sandbox import hostsettings, plugins, reaching
from fetchwork.sandbox.plugins import Move, Moved, Plugin, Runner
from tests.support.there import there
from tests.support.waiting import until

#: a plugin for several files: the first part of a URL's path chooses its action
MULTIPLE = r"""#!/usr/bin/python3
import os, re, sys, time
if sys.argv[1] == "-classad":
    print('MultipleFileSupport = true\nPluginVersion = "0.1"\nPluginType = "FileTransfer"')
    print('SupportedMethods = "toy, TOYS"')
    sys.exit(0)
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
upload = "-upload" in sys.argv
with open(words["-infile"]) as stream:
    pairs = re.findall(r'LocalFileName = "([^"]*)"; Url = "([^"]*)"', stream.read())
with open(words["-outfile"], "w") as out:
    for path, url in pairs:
        action = url.split("//")[1].split("/")[0]
        if action == "hang":
            time.sleep(600)
        if action == "crash":
            sys.exit(3)
        if action == "signal":
            os.kill(os.getpid(), 9)
        if action == "silent":
            sys.exit(0)
        if action == "fail":
            open(path, "w").close()
            print('[ TransferSuccess = false; TransferError = "no \"such\" thing"; '
                  f'TransferUrl = "{url}"; DeveloperData = [ TransferUrl = "x"; Tries = 2 ] ]', file=out)
            sys.exit(1)
        if not upload:
            open(path, "w").write(url)
        print(f'[ TransferFileBytes = {len(url)}; TransferSuccess = true; TransferUrl = "{url}" ]', file=out)
"""
SINGLE = """#!/bin/sh
[ "$1" = -classad ] && { echo 'SupportedMethods = "one"'; exit 0; }
case "$1$2" in *bad*) echo it is bad >&2; exit 7;; *hang*) sleep 600 & echo $! > child; wait;; esac
echo "$1" > "$2"
"""


def program(directory: Path, text: str) -> str:
    path = directory / "toy_plugin"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_of_a_host_s_plugins_the_last_one_that_moves_a_scheme_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {
        "first": 'MultipleFileSupport = true\nSupportedMethods = "http,osdf"',
        "none": 'PluginType = "FileTransfer"',
        "last": 'SupportedMethods = "OSDF"',
    }
    for name, text in said.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "toy_plugin").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (tmp_path / name / "toy_plugin").chmod(0o755)
    listed = ", ".join([*(f"{tmp_path}/{name}/toy_plugin" for name in said), "toy_plugin", "/no/such"])
    monkeypatch.setattr(hostsettings, "ask", lambda name: [listed])
    assert {scheme: (one.path, one.multiple) for scheme, one in plugins.find().items()} == {
        "http": (f"{tmp_path}/first/toy_plugin", True),
        "osdf": (f"{tmp_path}/last/toy_plugin", False),
    }

    def unknown(name: str) -> list[str]:
        raise hostsettings.SettingsUnknown("no HTCondor")

    monkeypatch.setattr(hostsettings, "ask", unknown)
    assert plugins.find() == {}


@pytest.fixture
def toy(tmp_path: Path) -> Plugin:
    return there(plugins.ask(program(tmp_path, MULTIPLE)))


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    (tmp_path / "sandbox").mkdir()
    return tmp_path / "sandbox"


def move(
    plugin: Plugin, sandbox: Path, *urls: str, limit_s: float = 60.0, upload: bool = False
) -> list[Moved]:
    runner = Runner(dict.fromkeys(plugin.schemes, plugin), str(sandbox), limit_s)
    moves = [Move(url, str(sandbox / f"file{number}")) for number, url in enumerate(urls)]
    return sorted(runner.move(moves, upload=upload), key=lambda one: one.move.path)


def test_a_plugin_says_what_it_moves(toy: Plugin) -> None:
    assert set(toy.schemes) == {"toy", "toys"}
    assert toy.multiple


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n", "not a program"])
def test_what_does_not_answer_as_a_plugin_is_none(tmp_path: Path, text: str) -> None:
    assert plugins.ask(program(tmp_path, text)) is None
    assert plugins.ask(str(tmp_path / "none")) is None


def test_files_come_and_their_bytes_are_told(toy: Plugin, sandbox: Path) -> None:
    moved = move(toy, sandbox, "toy://ok/a", "toys://ok/b")
    assert [one.failure for one in moved] == [None, None]
    assert (sandbox / "file1").read_text() == "toys://ok/b"
    assert [one.bytes for one in moved] == [10, 11]
    # no file of the transfer itself is left in the sandbox
    assert {path.name for path in sandbox.iterdir()} == {"file0", "file1"}


def test_after_its_first_failure_a_plugin_is_asked_for_the_rest(toy: Plugin, sandbox: Path) -> None:
    moved = move(toy, sandbox, "toy://ok/a", "toy://fail/b", "toy://ok/c")
    assert [one.failure is None for one in moved] == [True, False, True]
    failure = there(moved[1].failure)
    assert failure.subcode == 1 << 8
    assert 'using protocol toy. Details: no "such" thing ( URL file = toy://fail/b )' in failure.details
    # no empty file stays after a failure
    assert {path.name for path in sandbox.iterdir()} == {"file0", "file2"}


def test_a_plugin_that_crashes_is_not_asked_for_ever(toy: Plugin, sandbox: Path) -> None:
    moved = move(toy, sandbox, "toy://crash/a", "toy://crash/b")
    assert [one.failure is not None and one.failure.subcode for one in moved] == [3 << 8, 3 << 8]


@pytest.mark.parametrize("upload", [False, True])
@pytest.mark.parametrize(
    ("action", "subcode"), [("crash", 3 << 8), ("signal", 9), ("silent", plugins.NO_RESULT)]
)
def test_the_end_of_a_plugin_is_the_subcode(
    toy: Plugin, sandbox: Path, action: str, subcode: int, upload: bool
) -> None:
    [moved] = move(toy, sandbox, f"toy://{action}/a", upload=upload)
    assert moved.failure is not None
    assert moved.failure.subcode == subcode


def test_a_plugin_that_hangs_is_ended_with_its_children(toy: Plugin, sandbox: Path) -> None:
    began = time.monotonic()
    [moved] = move(toy, sandbox, "toy://hang/a", limit_s=1.0)
    assert moved.failure is not None
    assert moved.failure.subcode == plugins.TIMED_OUT
    assert "did not end in time" in moved.failure.details
    assert time.monotonic() - began < 300


def test_a_scheme_that_nobody_moves_is_told(toy: Plugin, sandbox: Path) -> None:
    [moved] = move(toy, sandbox, "osdf://host/a")
    assert moved.failure is not None
    assert moved.failure.subcode == plugins.NO_PLUGIN
    assert "no file transfer plugin of this host moves osdf:// URLs" in moved.failure.details


def test_a_plugin_for_single_files_is_run_once_for_each(tmp_path: Path, sandbox: Path) -> None:
    plugin = there(plugins.ask(program(tmp_path, SINGLE)))
    assert not plugin.multiple
    moved = move(plugin, sandbox, "one://a", "one://bad", "one://c")
    assert [one.failure is None for one in moved] == [True, False, True]
    assert moved[1].failure is not None
    assert moved[1].failure.subcode == 7 << 8
    assert "it is bad" in moved[1].failure.details
    assert (sandbox / "file2").read_text() == "one://c\n"


@pytest.mark.parametrize("upload", [False, True])
def test_a_plugin_for_single_files_that_hangs_is_ended_with_its_children_and_named(
    tmp_path: Path, sandbox: Path, monkeypatch: pytest.MonkeyPatch, upload: bool
) -> None:
    plugin = there(plugins.ask(program(tmp_path, SINGLE)))
    child = sandbox / "child"

    class Hanging(subprocess.Popen[bytes]):
        """Has its time limit when it hangs, no matter how slow a busy machine is."""

        def communicate(
            self, input: bytes | None = None, timeout: float | None = None
        ) -> tuple[bytes, bytes]:
            if timeout is not None:
                until(lambda: child.exists() and child.read_text().endswith("\n"), "a plugin that hangs")
                timeout = 0.1
            return super().communicate(input, timeout)

    monkeypatch.setattr(subprocess, "Popen", Hanging)
    [hung] = move(plugin, sandbox, "one://hang", upload=upload)
    assert hung.failure is not None
    assert hung.failure.subcode == plugins.TIMED_OUT
    told = "toy_plugin using protocol one. Details: did not end in time ( URL file = one://hang )"
    assert hung.failure.details == told
    pid = int(child.read_text())
    until(lambda: (found := Process.find(pid)) is None or not found.alive, "the end of the plugin's child")


def test_plugins_of_a_job_are_in_its_sandbox() -> None:
    brought = plugins.of_job("a, B=dir/p.py; c=/abs/q;", "/box")
    assert brought == {"a": "/box/p.py", "b": "/box/p.py", "c": "/box/q"}


def test_ads_in_new_syntax_are_read_whatever_is_in_them() -> None:
    text = '[ A = "x;]\\"y"; B = 3; C = [ A = "inner"; D = {1,2} ]; ]\n[ A = "2" ]   '
    first, second = plugins.read_ads(text)
    assert (first["a"], first["b"], second) == ('x;]"y', "3", {"a": "2"})
    assert plugins.read_ads("[ A = 1") == [{}]
    assert plugins.read_ads("no ad") == []


def test_nobody_learns_a_presigned_url_by_the_failure(tmp_path: Path, sandbox: Path) -> None:
    # a plugin that reports all attributes
    told = """f'[ TransferSuccess = false; TransferError = "no {url} and no ?{end}"; '"""
    asked = 'action = url.split("//")[1].split("/")[0]'
    telling = MULTIPLE.replace(asked, f'{asked}; end = url.partition("?")[2]')
    telling = telling.replace(
        telling[telling.index("'[ TransferSuccess = false") : telling.index("f'TransferUrl")], f"{told}\n"
    )
    plugin = there(plugins.ask(program(tmp_path, telling)))
    runner = Runner({"toy": plugin}, str(sandbox), 60.0)
    signed = Move("toy://fail/k?X-Amz-Signature=abc", str(sandbox / "file0"), "s3://fail/k")
    (moved,) = runner.move([signed], upload=False)
    assert moved.failure is not None
    assert moved.failure.details.endswith(
        "using protocol s3. Details: no s3://fail/k and no ?... ( URL file = s3://fail/k )"
    )


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def curl(tmp_path: Path) -> Plugin:
    """As the curl_plugin of HTCondor is called; it says "ok" of every URL."""
    text = MULTIPLE.replace('"toy, TOYS"', '"http, file"')
    text = text.replace('url.split("//")[1].split("/")[0]', '"ok"')
    Path(program(tmp_path, text)).rename(tmp_path / "curl_plugin")
    return there(plugins.ask(str(tmp_path / "curl_plugin")))


@pytest.mark.usefixtures("no_proxies")
def test_a_server_that_refuses_connections_is_not_tried_for_minutes(
    curl: Plugin, sandbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "PATIENCE_S", 1.5)
    with socket.socket() as closed, socket.create_server(("127.0.0.1", 0)) as taking:
        # no other process can have the port, and none listens there
        closed.bind(("127.0.0.1", 0))
        refusing, there = closed.getsockname()[1], taking.getsockname()[1]
        urls = [f"http://me:pw@127.0.0.1:{refusing}/x", f"http://127.0.0.1:{there}/y", "file:///etc/passwd"]
        refused, came, copied = move(curl, sandbox, *urls)
    assert refused.failure is not None
    # the status of HTCondor's plugin, after its twenty tries
    assert refused.failure.subcode == 256
    expected = f"Failed to connect to 127.0.0.1 port {refusing}: Connection refused ( URL file = {urls[0]} )"
    assert refused.failure.details == f"curl_plugin using protocol http. Details: {expected}"
    assert (came.failure, copied.failure) == (None, None)


@pytest.mark.usefixtures("no_proxies")
def test_a_server_that_comes_back_is_waited_for(curl: Plugin, sandbox: Path) -> None:
    with socket.socket() as server:
        # no other process can have the port meanwhile
        server.bind(("127.0.0.1", 0))
        started = threading.Timer(1.5, server.listen)
        started.start()
        [moved] = move(curl, sandbox, f"http://127.0.0.1:{server.getsockname()[1]}/x")
        started.join()
    assert moved.failure is None


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://127.0.0.1:1/x", "HTTP_PROXY"),
        ("http://127.0.0.1:1/x", "all_proxy"),
        ("http://127.0.0.1:99999/x", ""),
        ("http://[::/x", ""),
        ("http:///x", ""),
        ("http://no-such-host.invalid/x", ""),
        ("file://127.0.0.1/x", ""),
        ("toy://127.0.0.1:1/x", ""),
    ],
)
def test_what_is_no_refusal_is_left_to_the_plugin(url: str, proxy: str) -> None:
    assert reaching.refusals([url], {proxy: "http://proxy:3128"} if proxy else {}) == {}


@pytest.mark.usefixtures("no_proxies")
def test_a_site_s_own_plugin_may_know_other_ways_to_a_server(tmp_path: Path, sandbox: Path) -> None:
    text = MULTIPLE.replace('"toy, TOYS"', '"http"').replace('url.split("//")[1].split("/")[0]', '"ok"')
    plugin = there(plugins.ask(program(tmp_path, text)))
    [moved] = move(plugin, sandbox, "http://127.0.0.1:1/x")
    assert moved.failure is None


ECHO = """#!/usr/bin/python3
import sys
if sys.argv[1] == "-classad":
    print('MultipleFileSupport = true\\nPluginType = "FileTransfer"\\nSupportedMethods = "toy"')
    print("ProtocolVersion = PROTOCOL")
    sys.exit(0)
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
text = open(words["-infile"]).read()
open("said", "w").write(text)
with open(words["-outfile"], "w") as out:
    for line in text.splitlines():
        if "Url" in line:
            url = line.split('Url = "')[1].split('"')[0]
            print(f'[ TransferSuccess = true; TransferUrl = "{url}" ]', file=out)
"""
SAID: dict[str, object] = {
    "pluginDATA": {"foo": "bar", "n": [1, 2.5, None], "e": "/Expr(1 + 2)/", "odd name": True},
    "toy_PluginData": '/Expr([ a = "x" ])/',
    "http_PluginData": {"not": "ours"},
}


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_job_s_own_data_reach_the_plugin_as_its_protocol_has_them(
    tmp_path: Path, sandbox: Path, protocol: int
) -> None:
    plugin = there(plugins.ask(program(tmp_path, ECHO.replace("PROTOCOL", str(protocol)))))
    moves = [Move(f"toy://{number}", str(sandbox / str(number))) for number in range(2)]
    moved = Runner({"toy": plugin}, str(sandbox), 60.0, SAID).move(moves, upload=True)
    assert [one.failure for one in moved] == [None, None]
    read = [to_json(ClassAd(line)) for line in (sandbox / "said").read_text().splitlines()]
    every, own = SAID["pluginDATA"], {"a": "x"}
    files = [{"LocalFileName": move.path, "Url": move.url} for move in moves]
    assert plugin.protocol == protocol
    if protocol == 4:
        assert read == [{"PluginData": every}, {"Protocol": "toy", "toy_PluginData": own}, *files]
    elif protocol == 2:
        assert read == [{**one, "PluginData": every, "toy_PluginData": own} for one in files]
    else:
        assert read == files


@pytest.mark.parametrize("said", ["0", "101", "-4", "4.0", '"four"', "0001" + "9" * 5000])
def test_a_protocol_that_is_none_is_that_of_several_files(tmp_path: Path, said: str) -> None:
    plugin = there(plugins.ask(program(tmp_path, ECHO.replace("PROTOCOL", said.replace('"', "'")))))
    assert plugin.protocol == 2
