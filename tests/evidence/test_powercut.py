"""A power cut after any system call: what hooks and agents have acknowledged is on each possible disk."""

from __future__ import annotations

import dataclasses
import functools
import getpass
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from fetchwork.accesspoint import child
from fetchwork.accesspoint.logstate import StateFile
from fetchwork.agent.files.parked import OutputSpool
from fetchwork.agent.runs import updates
from fetchwork.deploy import hooks as hookinstall
from fetchwork.errors import FetchworkError, ProtocolError
from fetchwork.hook.spool import Spool
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue.events import logentry
from fetchwork.queue.events.jobevents import Cursor
from fetchwork.sandbox import names
from tests.evidence import powercut
from tests.evidence.powercut import Call, Cut, Disk
from tests.faults.harness import UNTIL_TOLD, Pool
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(powercut.problem() is not None, reason=str(powercut.problem()))

AD = b'FetchWorkRunId = 7\nFetchWorkToken = "abc"\nJobPid = 77\nExitCode = 3\nExitBySignal = false\n'
OUTPUTS = {"two names": b"t" * 300, "moved": b"m" * 3000}


class Machine:
    """A directory that is the traced disk: hooks, a spool and a sandbox."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool = root / "spool"
        self.trace = root.parent / "trace"
        self.sandbox = root / "sandbox"
        Spool(str(self.spool)).make()
        OutputSpool(self.root / "spool.outputs").make()
        self.hooks = root.parent / "hooks"

    def install(self, *, compiled: bool, without: tuple[str, int] | None = None) -> None:
        """Install the hooks; ``without``: a module, whose sync of this number is left out."""
        hookinstall.install(
            self.hooks,
            keyword="FETCHWORK",
            socket=self.root.parent / "nobody.sock",
            spool=self.spool,
            python=sys.executable,
            compiled=compiled,
        )
        if without is not None:
            leave_out(self.hooks / "lib" / without[0], without[1])

    def fill(self, files: Mapping[str, bytes]) -> None:
        """Make the sandbox of a job that has ended; an output has two names, so that it is copied."""
        self.sandbox.mkdir()
        ad = {"WhenToTransferOutput": "ON_EXIT", "TransferExecutable": False}
        notes = {"ad": ad, "plugins": {}, "plugin_limit_s": 1, "before": {}}
        (self.sandbox / names.NOTES).write_text(json.dumps(notes))
        for name, data in files.items():
            (self.sandbox / name).write_bytes(data)
        (self.sandbox / "directory").mkdir()
        (self.sandbox / "directory" / "other").hardlink_to(self.sandbox / next(iter(files)))

    def disk(self) -> Disk:
        """The disk before the hook begins; what a job has left in its sandbox is not synced."""
        disk = Disk(str(self.root))
        for name in ("spool", "spool.outputs"):
            disk.load(name)
        disk.load(synced=False)
        return disk

    def job_exit(self, ad: bytes) -> list[Call]:
        """Run the hook without an agent; its calls."""
        where = self.sandbox if self.sandbox.exists() else self.root
        command = [*powercut.tracer(self.trace), str(self.hooks / "job_exit"), "exit"]
        subprocess.run(command, input=ad, cwd=where, check=True, timeout=PATIENCE_S)
        return powercut.read(self.trace)


def leave_out(module: Path, number: int) -> None:
    """Leave out one sync of an installed module."""
    text = module.read_text()
    begin, end = [found.span() for found in re.finditer(r"os\.fsync(?=\()", text)][number]
    module.write_text(text[:begin] + "(lambda fd: None)" + text[end:])
    for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
        compiled.unlink()


@pytest.fixture
def machine(public_directory: Callable[[], Path]) -> Machine:
    root = public_directory() / "disk"
    root.mkdir()
    return Machine(root)


def is_end(cut: Cut, calls: list[Call]) -> bool:
    """Whether the program's first process has ended."""
    return cut.call.name == "exit_group" and cut.call.pid == calls[0].pid


def reports(tree: Path) -> list[bytes]:
    """The reports that the next agent finds in the spool; it moves other files aside."""
    return [report.request.body for report in Spool(str(tree / "spool")).read().reports]


def staged(tree: Path) -> list[dict[str, bytes]]:
    """The files of each directory that the next agent would upload."""
    spool, found = OutputSpool(tree / "spool.outputs"), []
    for name in spool.names():
        try:
            one = spool.read(name)
        except ProtocolError:
            continue
        files = {}
        for file in one.files:
            if file.number is not None:
                try:
                    descriptor = spool.open(one, file.number)
                except OSError:
                    files[file.name] = b"missing"
                    continue
                files[file.name] = os.read(descriptor, 1 << 20)
                os.close(descriptor)
        found.append(files)
    return found


@dataclasses.dataclass(frozen=True)
class Leaves:
    """A hook that leaves something for the agent, the ``whole`` of it ``found`` on a disk."""

    module: str
    ad: bytes
    files: Mapping[str, bytes]
    found: Callable[[Path], list[Any]]
    whole: Any

    def losses(self, machine: Machine) -> tuple[int, list[str]]:
        """Trace the hook; the number of disks, and those that lack the whole or have a part of it."""
        if self.files:
            machine.fill(self.files)
        disk = machine.disk()
        calls = machine.job_exit(self.ad)
        disks, losses = 0, []
        for cut in powercut.cuts(disk, calls):
            disks += 1
            with powercut.made(cut.tree) as tree:
                found = self.found(tree)
            if found not in ([[self.whole]] if is_end(cut, calls) else [[], [self.whole]]):
                losses.append(f"after {cut.call.name}, call {cut.number}: {str(found)[:200]}")
        return disks, losses


WITH_FILES = AD + b"FetchWorkSandbox = true\n"
MANY = {f"file {number}": b"%d" % number for number in range(20)}
LEAVES = {
    "report": Leaves("fetchwork/hook/spool.py", AD, {}, reports, AD),
    "outputs": Leaves("fetchwork/sandbox/parking.py", WITH_FILES, OUTPUTS, staged, OUTPUTS),
    "many outputs": Leaves("fetchwork/sandbox/parking.py", WITH_FILES, MANY, staged, MANY),
}


@pytest.mark.parametrize(
    ("what", "compiled"),
    [
        ("report", False),
        ("outputs", True),
        pytest.param("report", True, marks=pytest.mark.all),
        pytest.param("outputs", False, marks=pytest.mark.all),
        pytest.param("many outputs", False, marks=pytest.mark.all),
    ],
)
def test_what_a_hook_has_left_is_whole_on_each_disk_after_its_end(
    machine: Machine, what: str, compiled: bool
) -> None:
    machine.install(compiled=compiled)
    disks, losses = LEAVES[what].losses(machine)
    print(f"{what}: {disks} disks")
    assert losses == []
    # before the first write, before each sync and at the end
    assert disks > 10


@pytest.mark.parametrize(
    ("what", "sync"),
    [("report", 0), ("report", 1), ("outputs", 0), ("outputs", 1)],
)
def test_a_sync_that_is_left_out_is_found(machine: Machine, what: str, sync: int) -> None:
    leaves = LEAVES[what]
    machine.install(compiled=False, without=(leaves.module, sync))
    assert leaves.losses(machine)[1] != []


# -- an agent's notes

#: put before an agent's program: this agent updates the runs itself, so it notes them
_UPDATES = """
import fetchwork.cli
_main = fetchwork.cli.main
def main():
    from fetchwork.config import HostConfig
    HostConfig.agent_updates = True
    return _main()
fetchwork.cli.main = main
"""
_ONE_FILE = """
from fetchwork.agent.runs import updates
_init = updates._Notes.__init__
def one(self, file):
    _init(self, file)
    self._paths = (file, file)
updates._Notes.__init__ = one
"""


async def noted(server: PostgresServer, conninfo: str, root: Path, planted: str) -> list[str]:
    """Trace an agent with three runs; return the power cuts that lose more of its notes than one write."""
    trace = root.parent / f"{root.name}.trace"
    async with Pool(server, conninfo, root) as pool:
        disk = Disk(str(root))
        wrapper = powercut.tracer(trace, detached=True)
        host = await pool.add_host(slots=3, family=True, wrapper=wrapper, prelude=planted + _UPDATES)
        for number in range(1, 4):
            pool.submit([UNTIL_TOLD])
            await pool.until_running(number)
        host.agent.signal(signal.SIGKILL)
        await pool.until(lambda: "exited with" in trace.read_text() or "killed by" in trace.read_text())
    losses = []
    # the rows before the last write and those that it wrote
    before: list[Any] = []
    after: list[Any] = []
    for number, (call, trees) in enumerate(powercut.kills(disk, powercut.read(trace))):
        if call.name == "pwrite64" and ".runs" in str(call.descriptor):
            before, after = after, json.loads(call.strings[0][9:])[1]
        for tree in trees:
            with powercut.made(tree) as made:
                [known] = {*made.glob("*-spool.runs")} or [made / "none"]
                try:
                    rows = updates._Notes(known).read()
                except ValueError:
                    rows = []
            if rows not in (before, after):
                losses.append(f"{number} {call.name}: {rows}")
    assert len(after) == 3
    return losses


@pytest.mark.skipif(os.geteuid() != 0, reason="jobs of another account need root")
@pytest.mark.parametrize(
    "planted",
    [pytest.param(False, id="as it is"), pytest.param(True, id="one file", marks=pytest.mark.all)],
)
async def test_an_agent_that_is_killed_in_a_write_leaves_its_notes(
    postgres: PostgresServer, conninfo: str, public_directory: Callable[[], Path], planted: bool
) -> None:
    root = public_directory() / "disk"
    root.mkdir()
    losses = await noted(postgres, conninfo, root, _ONE_FILE if planted else "")
    assert (losses != []) is planted, losses


# -- event logs


def has_entries(log: Path, number: int) -> bool:
    return log.exists() and log.read_bytes().count(b"...\n") >= number


_COMMAND = "import os, sys; {planted}; from fetchwork import cli; sys.exit(cli.run(sys.argv[1:]))"


def written_logs(slots: DirectQueue, conninfo: str, root: Path, planted: str) -> tuple[int, list[str]]:
    """Trace a keeper of event logs, killed and continued; the disks, and those that stop the next one."""
    trace, log, state = root.parent / "trace", root / "log", root / "state"
    environment = {**os.environ, "FETCHWORK_DSN": conninfo}
    keeper = [sys.executable, "-c", _COMMAND.format(planted=planted), "userlog", "-o", str(log)]
    keeper += ["--state", str(state)]
    calls: list[Call] = []
    # entries have reasons, because equal ones of one second are taken for each other
    slots.submit()
    for killed in (True, False, False):
        command = [*powercut.tracer(trace), *keeper, *(["--follow"] if killed else [])]
        if killed:
            process = subprocess.Popen(command, env=environment, start_new_session=True)
            for number in range(3):
                slots.act("hold", "1", reason=str(number))
                until(functools.partial(has_entries, log, 2 + 2 * number))
                slots.act("release", "1", reason=str(number))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        else:
            slots.act("hold", "1", reason=str(len(calls)))
            slots.act("release", "1", reason=str(len(calls)))
            subprocess.run(command, env=environment, check=True, timeout=PATIENCE_S)
        calls += powercut.read(trace)
    whole = log.read_bytes()
    entries, rest = logentry.split(whole)
    # the last events may not be in the stream yet
    rows = slots.rows("SELECT batch, eventid FROM fetchwork.events ORDER BY 1, 2")[: len(entries)]
    cursors = [Cursor(*row) for row in rows]
    assert len(entries) > 7
    assert rest == b""
    disks, losses = 0, []
    for cut in powercut.cuts(Disk(str(root)), calls):
        disks += 1
        with powercut.made(cut.tree) as made:
            try:
                kept = StateFile(made / "state").load()
            except FetchworkError as error:
                losses.append(f"{cut.number} {cut.call.name}: {error}")
                continue
            after = [
                text.decode()
                for text, at in zip(entries, cursors, strict=True)
                if kept is None or at > kept.cursor
            ]
            check = kept is None or not kept.exact
            child.append({"path": str(made / "log"), "entries": after, "check": check})
            if (made / "log").read_bytes() != whole:
                losses.append(f"{cut.number} {cut.call.name}: {kept}")
    return disks, losses


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param("", id="as it is"),
        pytest.param("os.fdatasync = lambda fd: None", id="entries not synced", marks=pytest.mark.all),
        pytest.param("os.fsync = lambda fd: None", id="state not synced", marks=pytest.mark.all),
    ],
)
def test_a_keeper_of_event_logs_goes_on_from_each_disk(
    slots: DirectQueue, conninfo: str, tmp_path: Path, planted: str
) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disks, losses = written_logs(slots, conninfo, root, planted or "pass")
    print(f"event logs: {disks} disks")
    assert (losses != []) is bool(planted), losses


# -- outputs at their destination

DELIVERED = {"a": b"a" * 2000, "d/": None, "d/e/": None}


def ended_with_files(slots: DirectQueue, home: Path, owner: str) -> str:
    """A job of this owner that has ended; its outputs are in the database."""
    (job,) = slots.submit_many(
        [{}], {"Cmd": "/bin/true", "Owner": owner, "Iwd": str(home), "FetchWorkFiles": "sandbox"}
    )
    run, manifest = slots.started(), []
    for name, data in DELIVERED.items():
        manifest.append({"name": name, "mode": 0o755})
        if data is not None:
            manifest[-1] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            slots.of(run, "put_whole_contents", owner=None, datas=[data])
    assert slots.of(run, "keep_outputs", manifest=Jsonb(manifest)) == "kept"
    assert slots.finish(run) == "completed"
    return job


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param("", id="as it is"),
        pytest.param("os.fsync = lambda fd: None", id="not synced", marks=pytest.mark.all),
    ],
)
def test_outputs_that_were_delivered_are_at_their_destination(
    slots: DirectQueue, conninfo: str, public_directory: Callable[[], Path], planted: str
) -> None:
    root = public_directory() / "disk"
    home = root / "home"
    home.mkdir(parents=True)
    owner = getpass.getuser() if os.geteuid() else "nobody"
    shutil.chown(home, owner)
    job = ended_with_files(slots, home, owner)
    disk = Disk(str(root))
    disk.load()
    trace = root.parent / "trace"
    program = [sys.executable, "-c", _COMMAND.format(planted=planted or "pass"), "transfer-data", job]
    environment = {**os.environ, "FETCHWORK_DSN": conninfo}
    subprocess.run([*powercut.tracer(trace), *program], env=environment, check=True, timeout=PATIENCE_S)
    calls, disks, losses = powercut.read(trace), 0, []
    whole = {f"home/{name.rstrip('/')}": data for name, data in DELIVERED.items()}
    for cut in powercut.cuts(disk, calls):
        disks += 1
        wrong = [name for name, data in whole.items() if cut.tree.get(name, data) != data]
        if is_end(cut, calls):
            wrong += whole.keys() - cut.tree.keys()
        if wrong:
            losses.append(f"{cut.number} {cut.call.name}: {wrong}")
    print(f"delivered: {disks} disks")
    assert disks > 10
    assert (losses != []) is bool(planted), losses
