"""Files travel with jobs, on real slots: files that come into the sandbox, outputs, and hold reasons.

The cases and expectations are those of HTCondor's own tests of file transfer, written anew for jobs that are
fetched.
"""

import contextlib
import http.server
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.condor.compiled_hooks import compile_hooks, hook_directory
from tests.condor.file_jobs import FileJobs, agent_of
from tests.support.by_name import scalar
from tests.support.living import content, files
from tests.support.other_accounts import attack
from tests.support.sandboxes import (
    ENDS_PLUGIN,
    submit_with_files,
    submit_with_plugin,
)
from tests.support.waiting import until

OWNER, TOKEN, LATER = "alice", "the-token-of-alice", "the-later-token"
CREDENTIALS = f"""
echo ${{_CONDOR_CREDS#$_CONDOR_SCRATCH_DIR/}} `stat -c '%a %U' $_CONDOR_CREDS $_CONDOR_CREDS/box.use` `id -un`
cat $_CONDOR_CREDS/box.use $_CONDOR_CREDS/disk_h.use
grep OAuth .job.ad
grep -c {TOKEN} .job.ad .machine.ad
env | grep -c {TOKEN}
while ! grep -q {LATER} $_CONDOR_CREDS/box.use; do sleep 0.5; done
stat -c '%a %U' $_CONDOR_CREDS/box.use
ls -A $_CONDOR_CREDS
"""


@pytest.fixture(scope="session")
def job_with_credentials(file_pool: PersonalPool) -> str:
    """A job that reads its credentials until one of them has changed."""
    with Queue(file_pool.conninfo) as queue, Database(file_pool.conninfo) as database:
        queue.add_credential("box", f"{TOKEN}\n".encode(), owner=OWNER)
        queue.add_credential("disk", b"other\n", handle="h", owner=OWNER)
        jobs = FileJobs(file_pool, database)
        job = jobs.submit(CREDENTIALS, OAuthServicesNeeded="box,disk*h")
        jobs.running(job)
        queue.add_credential("box", f"{LATER}\n".encode(), owner=OWNER)
    return job


def test_a_job_with_an_expired_credential_is_held_with_4(jobs: FileJobs, job_with_credentials: str) -> None:
    with Queue(jobs.pool.conninfo) as queue:
        queue.add_credential("old", b"x", owner=OWNER, expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    held = jobs.held(jobs.submit("true", OAuthServicesNeeded="old"))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (4, 0)
    expired = "credential 'old' expired at 2020-01-01 00:00:00 UTC"
    assert held["holdreason"] == f"Job credentials are not available: {expired}"


def test_inputs_come_and_what_is_new_leaves_with_the_output_and_errors(jobs: FileJobs) -> None:
    job = jobs.submit(
        "cat data.txt; echo oops >&2; tr a-z A-Z < data.txt > new.txt; mkdir d; echo x > d/y",
        {"data.txt": b"some text\n"},
    )
    done = jobs.completed(job)
    assert done["exitcode"] == 0
    assert jobs.outputs(job) == {
        "_condor_stdout": b"some text\n",
        "_condor_stderr": b"oops\n",
        "new.txt": b"SOME TEXT\n",
    }


# ---- inputs


def test_the_executable_is_condor_exec_exe_and_stdin_travels_too(jobs: FileJobs) -> None:
    outputs = jobs.run('echo "$0"; stat -c %a "$0"; cat', {"in.txt": b"from stdin\n"}, In="in.txt")
    first, mode, stdin = bytes(outputs["_condor_stdout"] or b"").decode().splitlines()  # type: ignore[arg-type]
    assert first.endswith("/condor_exec.exe")
    assert (mode, stdin) == ("755", "from stdin")


def test_directories_and_empty_files_come_as_they_were(jobs: FileJobs) -> None:
    outputs = jobs.run(
        "find d -type f | sort; cat d/e/f; test -d empty && wc -c < nothing",
        {"d/": None, "d/e/": None, "d/e/f": b"deep\n", "d/g": b"g\n", "empty/": None, "nothing": b""},
    )
    assert outputs["_condor_stdout"] == b"d/e/f\nd/g\ndeep\n0\n"


def test_a_file_of_many_chunks_comes_and_goes_unchanged(jobs: FileJobs) -> None:
    data = bytes(range(256)) * 4096 * 3 + b"and some"
    outputs = jobs.run("cp big copy; sync", {"big": data})
    assert outputs["copy"] == data


def test_without_an_executable_to_bring_the_host_s_is_run(jobs: FileJobs) -> None:
    job = submit_with_files(jobs.pool.conninfo, {"a": b"A\n"}, cmd="/bin/cat", Arguments="a")
    jobs.completed(job)
    assert jobs.outputs(job)["_condor_stdout"] == b"A\n"


def test_what_is_not_to_be_transferred_is_used_where_it_is(jobs: FileJobs) -> None:
    there = jobs.pool.directory / "tmp"
    (there / "there.in").write_text("in\n")
    paths = {"In": f"{there}/there.in", "Out": f"{there}/there.out", "Err": f"{there}/there.err"}
    ad: dict[str, Any] = {**paths, "TransferIn": False, "TransferOut": False, "TransferErr": False}
    job = submit_with_files(jobs.pool.conninfo, {}, cmd="/bin/cat", **ad)
    jobs.completed(job)
    assert (there / "there.out").read_bytes() == b"in\n"
    assert jobs.outputs(job) == {}


def test_an_executable_whose_interpreter_is_missing_says_so(jobs: FileJobs) -> None:
    job = submit_with_files(jobs.pool.conninfo, {}, script="#!/no/such/interpreter\n")
    held = jobs.held(job)
    assert (
        "invalid interpreter (/no/such/interpreter) specified on first line of script" in held["holdreason"]
    )


def test_more_input_than_the_job_allows_itself_holds_it_with_32(jobs: FileJobs) -> None:
    job = jobs.submit("true", {"big": b"x" * (1 << 20) + b"x"}, MaxTransferInputMB=1)
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (32, 0)
    assert "max_transfer_input_mb allows 1 MB" in held["holdreason"]


# ---- outputs


def test_an_input_that_was_changed_is_output_and_one_that_was_not_is_none(jobs: FileJobs) -> None:
    outputs = jobs.run("echo more >> changed", {"changed": b"some\n", "kept": b"kept\n"})
    assert set(outputs) == {"_condor_stdout", "_condor_stderr", "changed"}


def test_listed_outputs_are_exactly_those_and_a_directory_goes_with_what_is_in_it(jobs: FileJobs) -> None:
    outputs = jobs.run(
        "mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g; echo 3 > listed; echo 4 > other",
        TransferOutput="listed, d",
    )
    assert outputs.pop("_condor_stdout") == outputs.pop("_condor_stderr") == b""
    assert outputs == {"listed": b"3\n", "d/": None, "d/e/": None, "d/e/f": b"1\n", "d/g": b"2\n"}


def test_a_slash_at_the_end_takes_what_is_in_a_directory(jobs: FileJobs) -> None:
    outputs = jobs.run("mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g", TransferOutput="d/")
    assert {name for name in outputs if not name.startswith("_")} == {"e/", "e/f", "g"}


@pytest.mark.parametrize(("preserve", "name"), [(False, "c.txt"), (True, "a/b/c.txt")])
def test_relative_paths_are_kept_where_the_job_says_so(jobs: FileJobs, preserve: bool, name: str) -> None:
    outputs = jobs.run(
        "mkdir -p a/b; echo x > a/b/c.txt", TransferOutput="a/b/c.txt", PreserveRelativePaths=preserve
    )
    assert outputs[name] == b"x\n"


def test_an_empty_list_sends_nothing_but_output_and_errors(jobs: FileJobs) -> None:
    outputs = jobs.run("echo x > new", TransferOutput="")
    assert set(outputs) == {"_condor_stdout", "_condor_stderr"}


def test_output_and_errors_in_one_file_and_nowhere(jobs: FileJobs) -> None:
    job = jobs.submit("echo out; echo err >&2", Out="both", Err="both")
    nowhere = jobs.submit("echo out; echo err >&2", Out="/dev/null", Err="/dev/null")
    jobs.completed(job)
    assert jobs.outputs(job) == {"_condor_stdout": b"out\nerr\n"}
    jobs.completed(nowhere)
    assert jobs.outputs(nowhere) == {}


@pytest.mark.parametrize("remaps", [None, "not_there = file:///tmp/not_there"])
def test_a_listed_output_that_is_missing_holds_the_job_with_12(jobs: FileJobs, remaps: str | None) -> None:
    job = jobs.submit("echo hello", TransferOutput="not_there", TransferOutputRemaps=remaps or "")
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (12, 2)
    assert "Transfer output files failure" in held["holdreason"]
    assert "not_there: (errno 2) No such file or directory" in held["holdreason"]


def test_a_listed_link_to_a_directory_holds_the_job_with_12(jobs: FileJobs) -> None:
    held = jobs.held(jobs.submit("mkdir d; echo > d/a; ln -s d s", TransferOutput="s"))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (12, 21)
    assert "Transfer of symlinks to directories is not supported" in held["holdreason"]


def test_more_output_than_the_job_allows_itself_holds_it_with_33(jobs: FileJobs) -> None:
    job = jobs.submit("head -c 1048577 /dev/zero > big", MaxTransferOutputMB=1)
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (33, 0)


def test_a_job_that_dies_by_a_signal_sends_its_output(jobs: FileJobs) -> None:
    job = jobs.submit("echo x > new; kill -9 $$")
    done = jobs.completed(job)
    assert (done["exitbysignal"], done["exitsignal"]) == (True, 9)
    assert jobs.outputs(job)["new"] == b"x\n"


@pytest.mark.parametrize(("code", "sent"), [(3, {"good"}), (0, {"core.log"})])
def test_on_success_sends_the_output_of_a_success_and_else_the_failure_files(
    jobs: FileJobs, code: int, sent: set[str]
) -> None:
    outputs = jobs.run(
        f"echo x > good; echo y > core.log; exit {code}",
        WhenToTransferOutput="ON_SUCCESS",
        JobSuccessExitCode=3,
        TransferOutput="good",
        FailureFiles="core.log",
    )
    assert set(outputs) - {"_condor_stdout", "_condor_stderr"} == sent


def test_a_failure_brings_its_files_though_the_output_of_a_success_is_not_there(jobs: FileJobs) -> None:
    job = jobs.submit(
        "touch failure-file-one failure-file-two; exit 1",
        WhenToTransferOutput="ON_SUCCESS",
        JobSuccessExitCode=0,
        FailureFiles="failure-file-one, failure-file-two",
        TransferOutput="success-file-one",
    )
    assert jobs.completed(job)["exitcode"] == 1
    outputs = jobs.outputs(job).keys()
    assert outputs == {"_condor_stdout", "_condor_stderr", "failure-file-one", "failure-file-two"}


def test_another_exit_code_than_that_of_a_success_loses_no_output_on_exit(jobs: FileJobs) -> None:
    job = jobs.submit("echo standard output; echo standard error >&2", JobSuccessExitCode=1)
    assert jobs.completed(job)["exitcode"] == 0
    assert jobs.outputs(job) == {
        "_condor_stdout": b"standard output\n",
        "_condor_stderr": b"standard error\n",
    }


# ---- before the job's own end


def test_what_an_evicted_job_saved_is_there_when_it_starts_again(jobs: FileJobs) -> None:
    job = jobs.submit(
        "if [ -f state ]; then cat state data; exit 0; fi; cat data > state; echo saved >> state; rm data;"
        " exec sleep 600",
        {"data": b"data\n"},
        WhenToTransferOutput="ON_EXIT_OR_EVICT",
        MaxVacateTime=30,
    )
    jobs.running(job)
    scalar(jobs.database, "vacate", jobs=[job])
    jobs.completed(job)
    assert jobs.outputs(job)["_condor_stdout"] == b"data\nsaved\ndata\n"


def test_a_directory_that_an_evicted_job_changed_is_there_when_it_starts_again(jobs: FileJobs) -> None:
    job = jobs.submit(
        "if grep -q first data/data_file; then cat data/data_file; echo second > data/data_file; exit 0; fi\n"
        "echo first > data/data_file; mkdir data/more; echo more > data/more/file; exec sleep 600",
        {"data/": None, "data/data_file": b"original\n"},
        WhenToTransferOutput="ON_EXIT_OR_EVICT",
        TransferOutput="data",
        MaxVacateTime=30,
    )
    jobs.running(job)
    scalar(jobs.database, "vacate", jobs=[job])
    jobs.completed(job)
    outputs = jobs.outputs(job)
    assert outputs["_condor_stdout"] == b"first\n"
    assert (outputs["data/data_file"], outputs["data/more/file"]) == (b"second\n", b"more\n")


def test_what_a_removed_job_has_written_is_gone(jobs: FileJobs) -> None:
    job = jobs.submit("echo x > new; exec sleep 600")
    jobs.running(job)
    scalar(jobs.database, "remove", jobs=[job])
    until(
        lambda: jobs.one("SELECT 1 AS x FROM fetchwork.history WHERE jobid = %s AND jobstatus = 3", job),
        f"job {job} Removed",
    )
    assert jobs.outputs(job) == {}


# ---- the hosts on which it may run


def test_a_job_whose_files_are_not_stored_is_not_offered_where_nothing_is_shared(jobs: FileJobs) -> None:
    shared = jobs.submit("true", FetchWorkFiles="shared:/home", ShouldTransferFiles="IF_NEEDED")
    stored = jobs.submit("echo here", FetchWorkFiles="stored", ShouldTransferFiles="IF_NEEDED")
    jobs.completed(stored)
    assert jobs.outputs(stored)["_condor_stdout"] == b"here\n"
    row = jobs.one("SELECT jobstatus, numjobstarts FROM fetchwork.jobs WHERE jobid = %s", shared)
    assert row is not None
    assert (row["jobstatus"], row["numjobstarts"]) == (1, 0)


# ---- actions that a job may try


def test_links_and_other_names_of_files_are_sent_as_what_they_are(jobs: FileJobs) -> None:
    job = jobs.submit(
        "echo real > real; ln -s real link; ln real other; ln -s /tmp away; mkfifo pipe; ln -s nowhere broken"
    )
    jobs.completed(job)
    outputs = {name: value for name, value in jobs.outputs(job).items() if not name.startswith("_")}
    assert outputs == {"real": b"real\n", "link": b"real\n", "other": b"real\n"}


def test_directories_that_the_job_made_read_only_are_emptied_all_the_same(jobs: FileJobs) -> None:
    job = jobs.submit(
        "mkdir -p d/e; echo 1 > d/e/f; echo 2 > d/g; chmod -R a-w d; echo $_CONDOR_SCRATCH_DIR",
        TransferOutput="d",
    )
    jobs.completed(job)
    outputs = jobs.outputs(job)
    stdout = outputs.pop("_condor_stdout")
    assert isinstance(stdout, bytes)
    assert outputs == {"_condor_stderr": b"", "d/": None, "d/e/": None, "d/e/f": b"1\n", "d/g": b"2\n"}
    # the scratch directory of 25 has another directory in it for the job
    scratch = Path(stdout.decode().strip().removesuffix("/scratch"))
    assert scratch.name.startswith("dir_")
    until(lambda: not scratch.exists(), "the end of the scratch directory")


def test_what_the_job_s_account_may_not_read_is_read_by_nobody_for_it(jobs: FileJobs) -> None:
    job = jobs.submit("ln -s /etc/shadow secret")
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (12, 13)
    assert "secret: (errno 13) Permission denied" in held["holdreason"]


# ---- URLs, by HTCondor's own curl_plugin


#: slow answers: bytes, and seconds between them; curl_plugin gives up if too little arrives
DELAYS: dict[str, list[bytes | int]] = {
    "/slow/pass_trailing_data": [b"n" * 1024, 28, b"n"],
    "/slow/pass_normal_end": [b"n" * 1024, 28, b"n" * 35, 28],
    "/slow/fail_slow_middle": [b"n" * 1024, 62, b"n"],
    "/slow/fail_delayed_start": [32, b"n" * 10],
    "/slow/fail_slow_start": [b"n" * 20, 32, b"n"],
}


class Shelf(http.server.BaseHTTPRequestHandler):
    """A server that stores each file that is PUT, and serves it."""

    kept: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        if self.path in DELAYS:
            self.give_slowly(DELAYS[self.path])
            return
        data = self.kept.get(self.path.partition("?")[0])
        refused = re.fullmatch(r"/status/(\d+)", self.path)
        self.send_response(int(refused[1]) if refused else 404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def give_slowly(self, parts: list[bytes | int]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(sum(len(one) for one in parts if isinstance(one, bytes))))
        self.end_headers()
        # the client may have left
        with contextlib.suppress(OSError):
            for one in parts:
                if isinstance(one, bytes):
                    self.wfile.write(one)
                    self.wfile.flush()
                else:
                    time.sleep(one)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        refused = self.path.startswith("/refused")
        if not refused:
            self.kept[self.path] = data
        self.send_response(403 if refused else 201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def shelf() -> Iterator[str]:
    """The beginning of the URLs of a server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_urls_are_inputs_by_curl_plugin(jobs: FileJobs, shelf: str) -> None:
    Shelf.kept |= {"/a/one": b"1\n", "/two": b"2\n"}
    outputs = jobs.run(
        "cat one two local", {"one": f"{shelf}/a/one", "two": f"{shelf}/two?x=y", "local": b"3\n"}
    )
    assert outputs == {"_condor_stdout": b"1\n2\n3\n", "_condor_stderr": b""}


def test_a_url_that_is_not_there_holds_the_job_with_13(jobs: FileJobs, shelf: str) -> None:
    job = jobs.submit("true", {"none": f"{shelf}/none"})
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (13, 1 << 8)
    assert "using protocol http. Details: The requested URL returned error: 404" in held["holdreason"]
    assert f"URL file = {shelf}/none" in held["holdreason"]


def test_whatever_a_server_refuses_holds_the_job_with_13(jobs: FileJobs, shelf: str) -> None:
    Shelf.kept["/good"] = b"good\n"
    with socket.socket() as closed:
        # bound, with no process listening
        closed.bind(("127.0.0.1", 0))
        urls = {
            # curl_plugin gives up after half a minute
            "refused": f"http://127.0.0.1:{closed.getsockname()[1]}/file",
            "unknown host": "http://nonexistent.invalid/file",
            **{number: f"{shelf}/status/{number}" for number in ("400", "403", "500")},
            "no such file": "file:///no-such.file",
            "malformed": "file://$(staging/match_metacompare/plots.pdf",
        }
        submitted = {what: jobs.submit("true", {"x": url}) for what, url in urls.items()}
        submitted["two of three"] = jobs.submit(
            "true", {"a": f"{shelf}/good", "b": f"{shelf}/status/500", "c": f"{shelf}/status/500"}
        )
        held = {what: jobs.held(job) for what, job in submitted.items()}
    for what, one in held.items():
        told = what, one["holdreason"]
        assert (one["holdreasoncode"], one["holdreasonsubcode"]) == (13, 1 << 8), told
        assert "Transfer input files failure at execution point" in one["holdreason"], told
        assert urls.get(what, f"{shelf}/status/500") in one["holdreason"], told
    for number in ("400", "403", "500"):
        assert f"The requested URL returned error: {number}" in held[number]["holdreason"]


@pytest.mark.all
def test_a_server_that_sends_too_little_holds_the_job_and_a_slow_one_does_not(
    jobs: FileJobs, shelf: str
) -> None:
    submitted = {path: jobs.submit("wc -c < x", {"x": f"{shelf}{path}"}) for path in DELAYS}
    for path, job in submitted.items():
        if "pass" in path:
            jobs.completed(job)
            assert int(jobs.outputs(job)["_condor_stdout"] or 0) > 1024
        else:
            held = jobs.held(job)
            assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (13, 1 << 8)
            assert "Aborted due to lack of progress" in held["holdreason"]


def test_a_scheme_that_the_host_has_no_plugin_for_is_tried_again_and_at_last_holds_the_job(
    jobs: FileJobs,
) -> None:
    held = jobs.held(jobs.submit("true", {"x": "nosuch://host/x"}))
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (13, -1001)
    assert held["holdreason"].startswith("could not start 2 times, last on slot")
    assert "no file transfer plugin of this host moves nosuch:// URLs" in held["holdreason"]


@pytest.mark.parametrize(("way", "code"), [("input", 13), ("output", 12)])
def test_the_end_of_a_plugin_that_a_job_brings_is_the_subcode(jobs: FileJobs, way: str, code: int) -> None:
    # an exit status, a signal, and a plugin that gives no result
    ends = {
        "ends://exit/17": 17 << 8,
        "ends://exit/67": 67 << 8,
        "ends://signal/9": 9,
        "ends://exit/0": -1004,
    }
    submitted = {url: submit_with_plugin(jobs.pool.conninfo, way, url) for url in ends}
    for url, job in submitted.items():
        held = jobs.held(job)
        assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (code, ends[url]), held["holdreason"]
        assert f"Transfer {way} files failure at execution point" in held["holdreason"]
        assert f"URL file = {url}" in held["holdreason"]


def test_a_plugin_is_run_once_for_all_its_files(jobs: FileJobs) -> None:
    urls: dict[str, bytes | str | None] = {f"file{number}": f"ends://pid/{number}" for number in range(3)}
    outputs = jobs.run("cat file*", {"plugin": ENDS_PLUGIN.encode(), **urls}, TransferPlugins="ends=plugin")
    stdout = outputs["_condor_stdout"]
    assert isinstance(stdout, bytes)
    numbers = stdout.split()
    assert (len(numbers), len(set(numbers))) == (3, 1)


# the case of HTCondor's test_plugin_classad_transfer
TOLD_PLUGIN = rb"""#!/bin/sh
[ "$1" = -classad ] && {
    printf 'MultipleFileSupport = true\nProtocolVersion = 4\nSupportedMethods = "told"\n'
    exit
}
cp "$2" x
echo '[ TransferUrl = "told://x"; TransferSuccess = true ]' > "$4"
"""


def test_what_a_job_says_to_plugins_reaches_them(jobs: FileJobs) -> None:
    inputs: dict[str, bytes | str | None] = {"plugin": TOLD_PLUGIN, "x": "told://x"}
    said = {"PluginData": {"foo": "bar"}, "told_PluginData": "/Expr([ bar = 1 ])/", "other_PluginData": {}}
    outputs = jobs.run("cat x", inputs, TransferPlugins="told=plugin", **said)
    stdout = outputs["_condor_stdout"]
    assert isinstance(stdout, bytes)
    first, second, third = stdout.decode().splitlines()
    assert first == '[ PluginData = [ foo = "bar" ] ]'
    assert second == '[ Protocol = "told"; told_PluginData = [ bar = 1 ] ]'
    assert 'Url = "told://x"' in third


def test_a_plugin_sees_files_and_no_directories(jobs: FileJobs) -> None:
    there = jobs.pool.directory / "tmp/tree"
    there.mkdir()
    there.chmod(0o777)
    expected = {"2/3/4/_file0", "2/a/_file1", "2/a/_file2", "2/a/b/_file3", "2/a/b/_file4", "c/5/_file5"}
    made = " ".join(f"1/{name}" for name in sorted(expected))
    job = jobs.submit(
        f"mkdir -p 1/2/3/4 1/2/a/b 1/c/5 1/empty 6; touch {made}",
        TransferOutput="1",
        OutputDestination=f"store:///tmp/{there.name}",
    )
    # the plugin would fail at a directory
    jobs.completed(job)
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert found == {f"1/{name}" for name in expected}


def test_urls_of_debian_s_other_plugins_and_of_a_site_s_own_are_moved(jobs: FileJobs) -> None:
    there = jobs.pool.directory / "tmp/of the site"
    there.mkdir()
    there.chmod(0o777)
    (there / "in").write_bytes(b"site's\n")
    job = jobs.submit(
        "cat data in file > new",
        {"data": "data://,hello%20w", "in": f"store:///tmp/{there.name}/in", "file": "file:///etc/passwd"},
        TransferOutput="new",
        TransferOutputRemaps=f"new=store:///tmp/{there.name}/new",
    )
    jobs.completed(job)
    passwd = jobs.pool.run_command(["cat", "/etc/passwd"]).stdout.encode()
    assert (there / "new").read_bytes() == b"hello wsite's\n" + passwd


def test_outputs_go_to_urls_by_remap_and_by_destination(jobs: FileJobs, shelf: str) -> None:
    by_remap = jobs.submit("echo r > new; echo s > other", TransferOutputRemaps=f"new={shelf}/remapped")
    to_destination = jobs.submit(
        "mkdir d; echo f > d/f; echo n > n; echo out", TransferOutput="d, n", OutputDestination=f"{shelf}/box"
    )
    jobs.completed(by_remap)
    jobs.completed(to_destination)
    assert (Shelf.kept["/remapped"], Shelf.kept["/box/d/f"], Shelf.kept["/box/n"]) == (b"r\n", b"f\n", b"n\n")
    assert jobs.outputs(by_remap) == {
        "_condor_stdout": b"",
        "_condor_stderr": b"",
        "new": f"{shelf}/remapped",
        "other": b"s\n",
    }
    assert jobs.outputs(to_destination)["_condor_stdout"] == b"out\n"


def test_an_upload_that_is_refused_holds_the_job_with_12(jobs: FileJobs, shelf: str) -> None:
    job = jobs.submit("echo r > new", TransferOutputRemaps=f"new={shelf}/refused/new")
    held = jobs.held(job)
    assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (12, 1 << 8)
    assert "The requested URL returned error: 403" in held["holdreason"]


# ---- what breaks


def test_outputs_wait_for_a_database_that_is_away_and_an_agent_that_was_killed(jobs: FileJobs) -> None:
    pool = jobs.pool
    go = pool.directory / "tmp/go"
    go.unlink(missing_ok=True)
    parked = pool.directory / "run/spool.outputs"
    job = jobs.submit(f"until [ -f {go} ]; do sleep 0.1; done; echo x > new")
    jobs.running(job)
    jobs.database.close()
    pool.postgres.stop("immediate")
    try:
        go.touch()
        until(lambda: list(parked.glob("*/manifest")), "the outputs to be parked")
        os.kill(agent_of(pool), signal.SIGKILL)
    finally:
        pool.postgres.start()
    agent_of(pool)
    with Database(pool.conninfo) as database:
        again = FileJobs(pool, database)
        again.completed(job)
        assert again.outputs(job)["new"] == b"x\n"
        assert again.one("SELECT count(*) FROM fetchwork.runs WHERE jobid = %s", job) == {"count": 1}
    until(lambda: not list(parked.glob("*/manifest")), "the directory to go")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another account")
def test_what_is_parked_while_the_database_is_away_is_out_of_the_reach_of_other_accounts(
    jobs: FileJobs,
) -> None:
    pool = jobs.pool
    go = pool.directory / "tmp/go"
    go.unlink(missing_ok=True)
    waits = f"until [ -f {go} ]; do sleep 0.1; done"
    spools = [pool.directory / "run/spool.outputs", pool.directory / "run/spool"]
    leaves = jobs.submit(f"{waits}; echo secret > new; chmod 600 new")
    plain = scalar(jobs.database, "submit", cmd="/bin/sh", arguments=f"-c '{waits}'", owner=OWNER, iwd="/tmp")
    for job in (leaves, plain):
        jobs.running(job)
    jobs.database.close()
    pool.postgres.stop("immediate")
    try:
        go.touch()
        until(lambda: list(spools[0].glob("*/manifest")), "the outputs to be parked")
        until(lambda: list(spools[1].glob("*.report")), "the report to be kept")
        names = [path for spool in spools for path in spool.rglob("*") if path.name != "bad"]
        log = "".join(path.read_text() for path in pool.condor.log.glob("FetchworkAgentLog*"))
        assert [path.name for path in names if len(path.name) > 10 and path.name in log] == []
        tried, done = attack(names, pool.directory / "tmp" / f"attack-{time.time_ns()}")
        assert tried >= 15 * 5
        assert done == []
    finally:
        pool.postgres.start()
    with Database(pool.conninfo) as database:
        again = FileJobs(pool, database)
        for job in (leaves, plain):
            again.completed(job)
        assert again.outputs(leaves)["new"] == b"secret\n"


def test_a_prepare_job_that_is_killed_half_way_leaves_nothing_and_the_job_runs_again(jobs: FileJobs) -> None:
    agent = agent_of(jobs.pool)
    ended = "SELECT 1 FROM fetchwork.history WHERE jobid = %s"
    job = ""
    killed: list[int] = []

    def kill_one() -> bool:
        for hook in processes_of(hook_directory(jobs.pool) / "prepare_job"):
            os.kill(agent, signal.SIGSTOP)
            # it may have ended before its agent was stopped
            with contextlib.suppress(ProcessLookupError):
                os.kill(hook, signal.SIGKILL)
                killed.append(hook)
            os.kill(agent, signal.SIGCONT)
        return bool(killed) or bool(jobs.database.query(ended, [job]))

    while not killed:
        job = jobs.submit("cat data | wc -c; ls", {"data": b"x" * (3 << 20)})
        until(kill_one, "a PREPARE_JOB to kill", every_s=0.001)
    jobs.completed(job)
    stdout = jobs.outputs(job)["_condor_stdout"]
    assert isinstance(stdout, bytes)
    assert stdout.split() == [b"3145728", b"_condor_stderr", b"_condor_stdout", b"condor_exec.exe", b"data"]


def test_small_files_travel_in_the_requests_of_compiled_hooks_and_others_as_ever(jobs: FileJobs) -> None:
    compile_hooks(hook_directory(jobs.pool))
    asked = Counter[str]()

    def done(
        script: str, inputs: dict[str, bytes | str | None], **ad: object
    ) -> dict[str, bytes | str | None]:
        before = asked_of(jobs.pool)
        job = jobs.submit(script, inputs, **ad)
        jobs.completed(job)
        # the log line follows the answer, which completes the job
        until(
            lambda: (
                (asked_of(jobs.pool) - before)["job_left"]
                + (asked_of(jobs.pool) - before)["outputs_delivered"]
            )
        )
        asked.clear()
        asked.update(asked_of(jobs.pool) - before)
        noted = (jobs.one("SELECT ad FROM fetchwork.runs WHERE jobid = %s", job) or {})["ad"]
        assert noted["TransferInputBytes"] >= sum(len(one) for one in inputs.values() if one)
        assert noted["TransferOutputBytes"] == sum(len(one or "") for one in jobs.outputs(job).values())
        return jobs.outputs(job)

    outputs = done("cat data; echo x > new; exit 3", {"data": b"data\n"})
    assert outputs == {"_condor_stdout": b"data\n", "_condor_stderr": b"", "new": b"x\n"}
    assert (asked["job_left"], asked["input_done"], asked["outputs_delivered"]) == (1, 0, 0)
    # one way for each: small inputs, and outputs with a directory
    outputs = done("mkdir d; cp data d", {"data": b"data\n"}, TransferOutput="d")
    assert outputs["d/data"] == b"data\n"
    assert (asked["job_left"], asked["input_done"], asked["outputs_delivered"]) == (0, 0, 1)
    large = b"x" * (3 << 20)
    outputs = done("wc -c < large", {"large": large})
    assert outputs["_condor_stdout"] == b"3145728\n"
    assert (asked["job_left"], asked["input_done"], asked["outputs_delivered"]) == (0, 1, 1)
    missing = jobs.submit("true", {}, TransferOutput="missing")
    assert jobs.held(missing)["holdreasoncode"] == 12


def asked_of(pool: PersonalPool) -> Counter[str]:
    """The number of the agent's requests so far, by name."""
    text = "".join(path.read_text(errors="replace") for path in pool.condor.log.glob("FetchworkAgentLog*"))
    return Counter(re.findall(r"\b(job_left|input_done|outputs_delivered)\b", text))


def processes_of(hook: Path) -> list[int]:
    """The processes that run a hook."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(hook) in words[:3]:
            found.append(int(path.parent.name))
    return found


def test_a_job_finds_its_credentials_and_the_later_ones(jobs: FileJobs, job_with_credentials: str) -> None:
    # submitted by the first test of this file: the agent skips runs that started in the last half minute
    settled = "SELECT 1 AS x FROM fetchwork.runs WHERE jobid = %s AND started_at < now() - interval '31 s'"
    until(lambda: jobs.one(settled, job_with_credentials), "half a minute of the job")
    # the agent checks each minute, and when it starts
    os.kill(agent_of(jobs.pool), signal.SIGKILL)
    done = jobs.completed(job_with_credentials)
    assert done["exitcode"] == 0
    outputs = jobs.outputs(job_with_credentials)
    assert str(outputs["_condor_stdout"], "utf-8").splitlines() == [  # type: ignore[arg-type]
        f".condor_creds 700 {OWNER} 600 {OWNER} {OWNER}",
        TOKEN,
        "other",
        'OAuthServicesNeeded = "box,disk*h"',
        ".job.ad:0",
        ".machine.ad:0",
        "0",
        f"600 {OWNER}",
        "box.use",
        "disk_h.use",
    ]
    assert set(outputs) == {"_condor_stdout", "_condor_stderr"}
    logs = list(files(jobs.pool.condor.log))
    assert any(path.name == "FetchworkAgentLog" for path in logs)
    kept = list(files(jobs.pool.directory / "run"))
    # the words are in its own script, and in its output, which may not be delivered yet
    kept = [path for path in kept if not {"spool.cache", "spool.outputs"} & set(path.parts)]
    for path in (*logs, *kept):
        said = content(path).decode(errors="replace")
        assert not re.search(f"{TOKEN}|{LATER}|{TOKEN.encode().hex()}", said), path
