"""The socket of a service: a process that listens at its path already, and the socket of a killed process."""

import socket
from pathlib import Path

import pytest

from fetchwork.ipc.listening import listen, who_listens


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


def test_nobody_listens_where_nothing_is(path: Path) -> None:
    with who_listens(path) as other:
        assert other is None


def test_socket_of_a_process_that_has_gone_is_removed(path: Path) -> None:
    listen(path, 1).close()
    assert path.is_socket()
    with who_listens(path) as other:
        assert other is None
    assert not path.exists()


def test_who_listens_is_connected_to_and_stays(path: Path) -> None:
    with listen(path, 1) as listener:
        listener.setblocking(True)
        with who_listens(path) as other:
            assert other is not None
            accepted, _ = listener.accept()
            with accepted:
                other.sendall(b"hello")
                assert accepted.recv(5) == b"hello"
    assert path.is_socket()


def test_what_fails_while_somebody_listens_is_not_taken_for_an_end(path: Path) -> None:
    with listen(path, 1), pytest.raises(ConnectionRefusedError), who_listens(path) as other:
        assert isinstance(other, socket.socket)
        raise ConnectionRefusedError
    assert path.is_socket()


def test_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(OSError, match="it is there and is no socket; remove it"), who_listens(path):
        pass
    assert path.read_text() == "mine"
