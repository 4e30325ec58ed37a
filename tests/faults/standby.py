"""A standby of a test's PostgreSQL, by streaming replication: it follows, is cut off, takes over."""

import json
import os
from pathlib import Path

from fetchwork.pool.ports import free_port
from fetchwork.pool.postgres import PostgresServer


class Standby(PostgresServer):
    """Follows ``primary``, which runs."""

    def __init__(self, primary: PostgresServer, directory: Path) -> None:
        super().__init__(directory)
        self.primary = primary

    def _create(self) -> None:
        port = free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        owner = self.primary.data.stat()
        os.chown(self.directory, owner.st_uid, owner.st_gid)
        source = self.primary.conninfo("replication")
        copy = [self.primary.programs / "pg_basebackup", "-D", self.data, "-d", source]
        self._run([*copy, "-R", "-c", "fast", "-N"], "cannot copy the primary")
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(f"port = '{port}'\nsynchronous_standby_names = ''\n")
        connection = json.loads((self.primary.directory / "connection.json").read_text())
        (self.directory / "connection.json").write_text(json.dumps({**connection, "port": port}))

    def cut_off(self) -> None:
        """Receive nothing from now on: the primary's later commits are lost when this one takes over."""
        self.query("ALTER SYSTEM SET primary_conninfo = ''")
        self.query("SELECT pg_reload_conf()")

    @property
    def follows(self) -> bool:
        """Whether it receives the primary's writes."""
        return self.query("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'") == "1"

    def take_over(self) -> None:
        """Become a server that writes."""
        self.query("SELECT pg_promote()")
