"""The small parts of a pool: processes by pid and start time, the cache folder, the host file, free ports."""

import importlib.metadata
import os
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from fetchwork import config
from fetchwork.config.toml import to_toml
from fetchwork.errors import PoolError
from fetchwork.pool import condorroot, machine, ports
from fetchwork.pool.cache import cache_directory, cached
from fetchwork.pool.hostfile import KEYWORD, host_tables
from fetchwork.pool.ports import candidates, free_port, local_port_range
from fetchwork.process import Process, wait_all
from tests.support.there import there
from tests.support.waiting import PATIENCE_S


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"])


class TestProcess:
    def test_is_found_again_from_its_text(self) -> None:
        process = there(Process.find(os.getpid()))
        assert process.alive
        assert Process.parse(str(process)) == process

    def test_text_from_another_boot_is_no_process(self) -> None:
        pid, ticks, _ = str(Process.find(os.getpid())).split()
        assert Process.parse(f"{pid} {ticks} 00000000-0000-0000-0000-000000000000") is None

    def test_ended_but_unreaped_is_not_alive(self) -> None:
        child = sleeper()
        process = there(Process.find(child.pid))
        process.signal(9)
        assert process.wait(PATIENCE_S)
        assert Path(f"/proc/{child.pid}").exists(), "not reaped yet"
        child.wait()

    def test_signal_does_not_reach_another_process_with_its_pid(self) -> None:
        child = sleeper()
        Process(child.pid, start_ticks=1).signal(9)
        time.sleep(0.1)
        assert child.poll() is None
        child.kill()
        child.wait()

    def test_wait_gives_up_after_its_time(self) -> None:
        process = there(Process.find(os.getpid()))
        assert not wait_all([process], 0.05)

    def test_children_are_listed(self) -> None:
        me = there(Process.find(os.getpid()))
        child = sleeper()
        assert child.pid in [each.pid for each in me.children()]
        child.kill()
        child.wait()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FETCHWORK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class TestCache:
    def test_entry_is_built_once(self, cache: Path) -> None:
        built: list[Path] = []

        def build(entry: Path) -> None:
            built.append(entry)
            (entry / "file").write_text("x")

        assert (cached("thing", build) / "file").read_text() == "x"
        cached("thing", build)
        assert len(built) == 1

    def test_failed_build_leaves_no_entry(self, cache: Path) -> None:
        def build(entry: Path) -> None:
            (entry / "half").touch()
            raise RuntimeError("no space")

        with pytest.raises(RuntimeError):
            cached("thing", build)
        assert not list(cache.glob("thing*/*"))
        assert not (cache / "thing").exists()

    def test_what_a_killed_builder_left_is_not_taken_for_an_entry(self, cache: Path) -> None:
        (cache / "thing.partial").mkdir(parents=True)
        (cache / "thing.partial" / "half").touch()

        entry = cached("thing", lambda partial: (partial / "whole").touch())

        assert [path.name for path in entry.iterdir()] == ["whole"]

    def test_second_builder_waits_for_the_first_and_takes_its_entry(self, cache: Path) -> None:
        started, go_on, built = threading.Event(), threading.Event(), []

        def slow(entry: Path) -> None:
            built.append("first")
            started.set()
            assert go_on.wait(PATIENCE_S)

        first = threading.Thread(target=cached, args=("thing", slow))
        first.start()
        assert started.wait(PATIENCE_S)
        second = threading.Thread(target=cached, args=("thing", lambda _: built.append("second")))
        second.start()
        second.join(0.2)
        assert second.is_alive(), "the second waits"
        go_on.set()
        first.join()
        second.join()
        assert built == ["first"]

    def test_entry_that_was_changed_is_made_anew(self, cache: Path) -> None:
        def build(entry: Path) -> None:
            (entry / "directory").mkdir()
            (entry / "directory" / "file").write_text("x")

        entry = cached("thing", build)
        (entry / "directory" / "file").chmod(0o600)
        lines: list[str] = []

        assert cached("thing", build, lines.append) == entry

        assert (entry / "directory" / "file").stat().st_mode & 0o777 != 0o600
        assert len(lines) == 1
        assert "'/directory/file' is not as it was made" in lines[0]
        assert (cache / "thing.spoiled-1" / "directory" / "file").exists()
        cached("thing", build, lines.append)
        assert len(lines) == 1

    def test_entry_of_an_older_fetchwork_is_made_anew(self, cache: Path) -> None:
        (cache / "thing").mkdir(parents=True)
        lines: list[str] = []

        entry = cached("thing", lambda partial: (partial / "new").touch(), lines.append)

        assert [path.name for path in entry.iterdir()] == ["new"]
        assert "an older fetchwork made it" in lines[0]

    def test_roots_that_older_pools_could_change_are_named(self, cache: Path) -> None:
        assert condorroot.older_roots("trixie") == []
        (cache / "condor-trixie-1").mkdir()
        (cache / "condor-sid-1").mkdir()
        assert condorroot.older_roots("trixie") == [cache / "condor-trixie-1"]

    def test_every_account_may_look_into_the_cache(self, cache: Path) -> None:
        before = os.umask(0o077)
        try:
            entry = cached("thing", lambda _: None)
        finally:
            os.umask(before)
        assert cache_directory().stat().st_mode & 0o777 == 0o755
        assert entry.stat().st_mode & 0o777 == 0o755


def tables(**asked: object) -> Mapping[str, object]:
    return host_tables(
        Path("/pool"),
        venv=Path("/opt/venv"),
        user="condor",
        conninfo="host=127.0.0.1 dbname=fetchwork password='it\\'s \"one\"'",
        credential_key=None,
        slots=4,
        partitionable=False,
        name="here",
        asked=asked,
    )


class TestHostFile:
    def test_what_is_written_is_what_is_read(self) -> None:
        assert tomllib.loads(to_toml(tables())) == tables()

    def test_is_accepted_by_the_reader_of_host_files(self) -> None:
        host = config.parse(to_toml(tables()))
        assert host.name == "here"
        assert [slot.keyword for slot in host.slot_list()] == [KEYWORD] * 4
        assert host.hooks(KEYWORD) == Path("/pool/hooks") / KEYWORD

    def test_keywords_asked_for_replace_ours_and_get_hooks_of_their_own(self) -> None:
        host = config.from_dict(
            tables(
                keyword={"A": {"queues": ["a"]}, "B": {"queues": ["b"]}},
                slots={"default": "A", "keyword": {"4": "B"}},
            )
        )
        assert [slot.keyword for slot in host.slot_list()] == ["A", "A", "A", "B"]
        assert {host.hooks("A"), host.hooks("B")} == {Path("/pool/hooks/A"), Path("/pool/hooks/B")}

    def test_slot_types_asked_for_replace_ours(self) -> None:
        host = config.from_dict(tables(slots={"type": [{"count": 1, "cpus": 4, "partitionable": True}]}))
        assert [slot.type.partitionable for slot in host.slot_list()] == [True]


def test_free_port_is_free_and_among_the_candidates_of_this_machine() -> None:
    port = free_port()
    assert port in candidates(*local_port_range())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


@pytest.mark.parametrize(("first", "last"), [(32768, 60999), (49152, 65535), (1024, 20000), (15500, 40000)])
def test_candidates_are_not_given_to_outgoing_connections(first: int, last: int) -> None:
    chosen = candidates(first, last)
    assert len(chosen) >= 1000
    assert chosen[0] > last or chosen[-1] < first
    assert min(chosen) >= 15000 and max(chosen) <= 65535


@pytest.mark.parametrize("first", [1024, 1025])
def test_where_the_kernel_gives_out_every_port_candidates_are_those_that_it_takes_last(first: int) -> None:
    """HTCondor's kernel tuning makes the range 1024 to 65535."""
    chosen = candidates(first, 65535)
    assert len(chosen) > 10_000
    assert all((port - first) % 2 for port in chosen)


def test_free_port_is_found_where_the_kernel_gives_out_every_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "local_port_range", lambda: (1024, 65535))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, *requires: str) -> None:
        self._requires = list(requires)

    @property
    def requires(self) -> list[str]:
        return self._requires

    def read_text(self, filename: str) -> None:
        return None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_root_gets_what_the_requirements_lead_to_and_nothing_of_extras_not_asked_for() -> None:
    installed = {
        "psycopg": _Distribution(
            'psycopg-pool; extra == "pool"', 'mypy>=1; extra == "dev"', "typing_extensions>=4"
        ),
        "psycopg-pool": _Distribution(),
        "typing-extensions": _Distribution(),
        "mypy": _Distribution(),
    }
    found = condorroot._closure(["Psycopg[pool]>=3,<4"], dict(installed))
    assert {name for name in found if "[" not in name} == {"psycopg", "psycopg-pool", "typing-extensions"}


def test_programs_for_administrators_are_found_without_their_directories_on_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert machine.program("chroot") in ("/usr/sbin/chroot", "/sbin/chroot", "/usr/bin/chroot")


def test_a_program_that_is_missing_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PATH", "")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PoolError, match=r"^a pool needs the program 'unshare', which is not on PATH"):
        machine.program("unshare")
