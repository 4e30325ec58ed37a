"""The private PostgreSQL server: its life, and its refusal of other accounts."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fetchwork.errors import PoolError
from fetchwork.pool import postgres
from fetchwork.pool.postgres import PostgresServer, wheel_programs


@pytest.fixture(scope="module")
def server(public_directory: Callable[[], Path]) -> Iterator[PostgresServer]:
    server = PostgresServer(public_directory() / "postgres", durable=False)
    server.start()
    yield server
    server.stop("immediate")


def test_started_twice_is_one_server(server: PostgresServer) -> None:
    first = server.postmaster
    server.start()
    assert server.postmaster == first


def test_another_object_of_the_directory_drives_the_same_server(server: PostgresServer) -> None:
    other = PostgresServer(server.directory)
    assert other.postmaster == server.postmaster
    assert other.conninfo() == server.conninfo()


def test_committed_row_is_there_after_crash_and_start(server: PostgresServer) -> None:
    server.query("CREATE TABLE kept AS SELECT 7 AS n")
    server.query("CHECKPOINT")  # this server does not flush commits
    server.crash()
    assert not server.running
    server.start()
    assert server.query("SELECT n FROM kept") == "7"


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_port_and_password_stay_over_a_restart(server: PostgresServer, mode: str) -> None:
    before = server.conninfo()
    server.stop(mode)  # type: ignore[arg-type]
    assert not server.running
    server.start()
    with psycopg.connect(before):
        pass


def test_nobody_connects_without_the_password(server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server.conninfo().replace(server.password, "wrong"))


def test_only_loopback_is_listened_on_and_no_unix_socket(server: PostgresServer) -> None:
    assert server.query("SHOW listen_addresses") == "127.0.0.1"
    assert server.query("SHOW unix_socket_directories") == ""


def test_directory_is_closed_to_others(server: PostgresServer) -> None:
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((server.directory / "connection.json").stat().st_mode) == 0o600
    assert not (server.directory / "password").exists()


def test_unknown_directory_says_that_it_was_never_started(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match="it was never started"):
        PostgresServer(tmp_path / "nothing").conninfo()


def test_failing_start_shows_the_server_log(public_directory: Callable[[], Path]) -> None:
    server = PostgresServer(public_directory() / "p", settings={"shared_buffers": "no"}, durable=False)
    with pytest.raises(PoolError, match=r"cannot start PostgreSQL in .*(?s:.*)shared_buffers"):
        server.start()
    assert not server.running


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server under another account")
class TestAsRoot:
    def test_server_is_not_root(self, server: PostgresServer) -> None:
        assert server.postmaster is not None
        assert Path(f"/proc/{server.postmaster.pid}").stat().st_uid != 0

    def test_directory_that_the_account_cannot_reach_is_refused_by_name(self, tmp_path: Path) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        with pytest.raises(PoolError, match="may not enter"):
            PostgresServer(closed / "postgres").start()

    def test_programs_that_the_account_cannot_reach_are_copied(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, public_directory: Callable[[], Path]
    ) -> None:
        monkeypatch.setenv("FETCHWORK_CACHE", str(public_directory()))
        package = wheel_programs().parents[1]
        for directory in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(directory, tmp_path / directory.name, symlinks=True)
        tmp_path.chmod(0o700)
        tree = tmp_path / package.name / wheel_programs().parent.name

        copied = postgres._reachable(tree)

        assert copied.is_relative_to(os.environ["FETCHWORK_CACHE"])
        assert postgres._reachable(tree) == copied
        shutil.rmtree(tmp_path / package.name)
        server = PostgresServer(public_directory() / "p", programs=copied / "bin", durable=False)
        server.start()
        server.stop("immediate")
