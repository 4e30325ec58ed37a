"""An execute host made by the README's commands, run one after the other on a Debian with HTCondor."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fetchwork.db.database import Database
from fetchwork.pool.condorroot import OWN_ROOT, CondorRoot
from fetchwork.pool.machine import RootMachine
from fetchwork.pool.postgres import PostgresServer, system_programs
from fetchwork.process import account
from tests.support.waiting import PATIENCE_S

README = Path(__file__).parents[2] / "README.md"
HOST = "ep.example.org"
#: the server's name in the README
DATABASE = "db.example.org"
PROGRAM = "/opt/fetchwork/bin/fetchwork"
CORES = 4

# A Debian of its own: its changes stay in memory, and all of it ends with the shell. HTCondor has its
# package's configuration: an execute host of a pool whose central manager is away.
_MACHINE = r"""
set -e
machine=$1 venv=$2 source=$3 name=$4 cores=$5
# the environment is there as after "python3 -m venv" and "pip install"
own_root "$machine" "$venv" overlay
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
echo "$name" > /proc/sys/kernel/hostname
echo "127.0.0.1 $name ${name%%.*} localhost" > "$machine/etc/hosts"
mount --bind "$source" "$machine/opt/fetchwork/src"
ln -s venv/bin "$machine/opt/fetchwork/bin"
# what Debian does when it boots
chroot "$machine" install -d -o condor -g condor /run/condor /var/lock/condor
cat > "$machine/etc/condor/config.d/10-site" <<END
use ROLE:Execute
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
RUNBENCHMARKS = 0
NUM_CPUS = $cores
# a root directory has no /proc/sys to tune and no scratch to mount
ENABLE_KERNEL_TUNING = False
MOUNT_UNDER_SCRATCH =
# another HTCondor of this computer may have the port
USE_SHARED_PORT = False
END
chroot "$machine" condor_master
waited=0
while [ ! -e "$machine/var/log/condor/.startd_address" ]; do
    if [ $waited = 1200 ]; then
        tail -n 50 "$machine"/var/log/condor/*
        exit 1
    fi
    waited=$((waited + 1))
    sleep 0.1
done
# each line from outside is a command
exec chroot "$machine" /bin/sh
"""


class Debian:
    """A shell on the machine."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell

    def run(self, command: str) -> tuple[int, str]:
        """The exit status and output of a command line."""
        assert self._shell.stdin and self._shell.stdout
        # a machine that ended has said why: the reason is read below
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.write(f'{{ {command}\n}} 2>&1; status=$?; echo; echo "ended: $status"\n')
            self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if ended := re.fullmatch(r"ended: (\d+)\n", line):
                return int(ended[1]), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the machine ended: {''.join(lines)}")


@contextlib.contextmanager
def debian(root: CondorRoot, directory: Path, cores: int = CORES) -> Iterator[Debian]:
    """A Debian in which HTCondor runs, as its package has configured it; ``directory`` gets the source."""
    RootMachine(directory, root, HOST).prepare()
    shell = subprocess.Popen(
        [
            "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child",
            "sh", "-c", OWN_ROOT + _MACHINE, "machine",
            *map(str, (root.path, root.venv, directory / "src", HOST, cores)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": "/opt/fetchwork/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    assert shell.stdin and shell.stdout
    made = Debian(shell)
    try:
        status, output = made.run("true")
        assert status == 0, output
        yield made
    finally:
        shell.kill()
        with contextlib.suppress(BrokenPipeError):
            shell.stdin.close()
        shell.stdout.close()
        shell.wait()


def commands() -> tuple[list[str], list[str]]:
    """The commands of the README's section: those of the administrator, and those on the host."""
    section = README.read_text().partition("## An execute host in three commands")[2]
    administrator, host = re.findall(r"```sh\n(.*?)```", section, re.S)[:2]
    return administrator.strip().split("\n\n"), host.strip().split("\n\n")


@dataclass
class ReadmeHost:
    """A host made by the README's commands."""

    debian: Debian
    database: Database

    def wait_until(self, true: Callable[[], bool], patience_s: float = 5 * PATIENCE_S) -> None:
        """Wait for a condition; the error shows HTCondor's logs."""
        deadline = time.monotonic() + patience_s
        while not true():
            assert time.monotonic() < deadline, self.debian.run("tail -n 50 /var/log/condor/*Log")[1]
            time.sleep(0.5)

    def doctor(self) -> tuple[int, str]:
        """The doctor's output, once the agent has reported its slots: now and then, not at each fetch."""
        told: list[tuple[int, str]] = []

        def slots_are_there() -> bool:
            told.append(self.debian.run(f"{PROGRAM} doctor"))
            return re.search("slots? fetch(es)?;", told[-1][1]) is not None

        self.wait_until(slots_are_there)
        return told[-1]


_OPENSSL = """
set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=authority" -keyout root.key -out root.crt
openssl req -new -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout server.key -out server.csr
printf 'subjectAltName=DNS:%s' "$1" > names
openssl x509 -req -in server.csr -CA root.crt -CAkey root.key -CAcreateserial -days 2 \\
    -extfile names -out server.crt
"""


@contextlib.contextmanager
def server_with_tls(directory: Path) -> Iterator[tuple[PostgresServer, Path]]:
    """A PostgreSQL of the system whose certificate an authority of its own signed; and that one's."""
    certificates = directory / "certificates"
    certificates.mkdir()
    subprocess.run(
        ["sh", "-c", _OPENSSL, "openssl", DATABASE], cwd=certificates, check=True, capture_output=True
    )
    owner = account("postgres", "nobody")
    for path in (certificates, certificates / "server.key", certificates / "server.crt"):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    settings = {
        "ssl": "on",
        "ssl_cert_file": str(certificates / "server.crt"),
        "ssl_key_file": str(certificates / "server.key"),
    }
    server = PostgresServer(
        directory / "postgres", programs=system_programs(), settings=settings, durable=False
    )
    server.start()
    try:
        yield server, certificates / "root.crt"
    finally:
        server.stop("immediate")


@contextlib.contextmanager
def readme_host(
    root: CondorRoot,
    directory: Path,
    postgres: PostgresServer,
    authority: Path | None = None,
    *,
    cores: int = CORES,
    more: str = "",
) -> Iterator[ReadmeHost]:
    """Follow the README on a Debian of its own, with a database of its own.

    ``authority`` has the certificate of the server's authority; without it the server is not verified.
    ``more`` is added to the host file.
    """
    (init, invite), (pip, join, install) = commands()
    assert pip == "python3 -m venv /opt/fetchwork && /opt/fetchwork/bin/pip install ."
    dbname = f"readme_{os.getpid()}"
    postgres.create_database(dbname)
    server = f"host={DATABASE} port={postgres.port} dbname={dbname}"

    with Database(postgres.conninfo(dbname)) as database, debian(root, directory, cores) as machine:

        def run(command: str) -> str:
            status, output = machine.run(command.replace(f"host={DATABASE} dbname=jobs", server))
            assert status == 0, output
            return output

        run(f"echo 127.0.0.1 {DATABASE} >> /etc/hosts")
        if authority is None:
            invite = invite.replace(" --ca root.crt", "")
        else:
            run(f"cat > root.crt <<'END'\n{authority.read_text()}END")
        password = f"PGPASSWORD={postgres.password}"
        run(f"{password} {init}")
        invitation = re.search(r"(?m)^fetchwork-invitation:\S+$", run(f"{password} {invite}"))
        assert invitation
        try:
            run(join.replace("INVITATION", invitation[0]))
            run(f"cat >> /etc/fetchwork/host.toml <<'END'\n{more}END")
            run(install)
            yield ReadmeHost(machine, database)
        finally:
            machine.run("condor_off -fast -master; sleep 2")
            database.query("SELECT fetchwork.uninvite(number) FROM fetchwork.invitations()")
            database.query("SELECT fetchwork.revoke_host(host) FROM fetchwork.identities()")
