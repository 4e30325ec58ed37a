"""A host on which fetching can work: real hooks, spool and database; HTCondor and the agent are simulated.

``tests/condor/test_doctor.py`` runs the doctor in a real pool; here each test breaks one thing.
"""

import json
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import fetchwork
from fetchwork import config
from fetchwork.deploy import CONDOR_FILE, render
from fetchwork.deploy import hooks as hookinstall
from fetchwork.deploy.condorconfig import CondorConfig, parse_settings
from fetchwork.doctor import Line, daemons, diagnose
from fetchwork.hook import wire

# the output of condor_config_val, as observed with 23.9.6
CONDOR_CONFIG_VAL = """\
#!/bin/sh
settings={settings}
case "$1" in
    CONDOR_VERSION) echo 23.9.6 ;;
    -dump) echo '# Configuration from machine: test'; cat $settings ;;
    -verbose)
        shift
        for name in "$@"; do
            grep -i "^$name = " $settings | sed 's|$|\\n # at: /etc/condor/config.d/60-local, line 7|'; echo
        done ;;
    -subsystem)
        grep -i "^$3 = " $settings | sed 's/^[^=]*= //' | grep . && exit
        echo "Not defined: $3" >&2
        exit 1 ;;
esac
"""

HOST = """\
[host]
name = "test.example.org"
file = "{directory}/host.toml"
cpus = 4

[database.main]
conninfo = "{conninfo}"

[agent]
venv = "{directory}/venv"
socket = "{directory}/run/agent.sock"
spool = "{directory}/run/spool"

[keyword.FETCHWORK]
hooks = "{directory}/hooks"

[[slots.type]]
count = 4
cpus = 1
"""


@dataclass
class TestHost:
    """The parts that a test may break."""

    __test__ = False

    directory: Path
    settings: dict[str, str]
    connection: psycopg.Connection
    stop_agent: Callable[[], None]
    #: HTCondor's daemons that run
    daemons: set[str]

    @property
    def file(self) -> Path:
        return self.directory / "host.toml"

    @property
    def hooks(self) -> Path:
        return self.directory / "hooks"

    def diagnose(self) -> list[Line]:
        """The doctor's lines, with ``settings`` as HTCondor's answers."""
        text = "".join(f"{name} = {value}\n" for name, value in self.settings.items())
        (self.directory / "settings").write_text(text)
        return list(diagnose(self.file, CondorConfig((str(self.directory / "condor_config_val"),))))

    def failures(self) -> list[Line]:
        return [line for line in self.diagnose() if line.verdict == "FAIL"]

    def fails(self, *, subject: str = "", text: str = "", remedy: str = "") -> Line:
        """The only failure; its subject, and parts of its text and remedy, are these."""
        (line,) = self.failures()
        assert subject in ("", line.subject), line
        assert text in line.text
        assert line.remedy
        assert remedy in line.remedy
        return line


def serve(path: Path, rights: str = "root part") -> Callable[[], None]:
    """Answer ``status`` on a socket as an agent does; return a function that stops it."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    told = {"version": fetchwork.__version__, "host": "test.example.org", "pid": os.getpid()}
    state = json.dumps({**told, "rights": rights}).encode()

    def answer() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                reader = wire.RequestReader()
                while (request := reader.next_request()) is None:
                    reader.feed(connection.recv(4096))
                assert request.name in ("status", "reload")
                connection.sendall(wire.encode_reply(wire.Reply(state)))

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()

    def stop() -> None:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        path.unlink(missing_ok=True)
        thread.join()

    return stop


@pytest.fixture
def agent_role(connection: psycopg.Connection) -> Iterator[tuple[str, str]]:
    """A login role with the rights of an agent, and its password."""
    role, password = f"agent_{secrets.token_hex(4)}", secrets.token_hex(8)
    connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}' IN ROLE fetchwork_agent")
    yield role, password
    connection.execute(f"DROP ROLE {role}")


@pytest.fixture
def host(
    public_directory: Callable[[], Path],
    conninfo: str,
    connection: psycopg.Connection,
    agent_role: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[TestHost]:
    """A host on which nothing is wrong."""
    directory = public_directory()
    role, password = agent_role
    text = HOST.format(directory=directory, conninfo=make_conninfo(conninfo, user=role, password=password))
    if os.geteuid() != 0:
        text = text.replace("[agent]", '[agent]\nuser = ""')
    else:
        text = text.replace("[agent]", '[agent]\nuser = "daemon"')
    (directory / "host.toml").write_text(text)
    (directory / "host.toml").chmod(0o600)
    if os.geteuid() == 0:
        shutil.chown(directory / "host.toml", "daemon")
    settings = config.load(directory / "host.toml")
    hookinstall.install_host(settings)
    (directory / "venv/bin").mkdir(parents=True)
    program = directory / "condor_config_val"
    program.write_text(CONDOR_CONFIG_VAL.format(settings=directory / "settings"))
    program.chmod(0o755)
    condor = parse_settings(render(settings, (23, 9, 6))[CONDOR_FILE])
    condor |= {
        "DAEMON_LIST": "FETCHWORK_AGENT MASTER STARTD",
        "STARTD_ATTRS": "FetchWorkQueues FetchWorkPlain",
        "START": "True",
        "LOCAL_CONFIG_DIR": "/etc/condor/config.d",
        "STARTER_JOB_HOOK_KEYWORD": "",
    }
    stop_agent = serve(settings.socket)
    stopped: list[bool] = []

    def stop_once() -> None:
        if not stopped:
            stopped.append(True)
            stop_agent()

    running = {daemons.MASTER, daemons.STARTD}
    monkeypatch.setattr(daemons, "running", lambda: running)
    monkeypatch.setattr(daemons, "accounts", lambda: {0})
    yield TestHost(directory, condor, connection, stop_once, running)
    stop_once()
