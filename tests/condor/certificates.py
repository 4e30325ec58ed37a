"""A certificate of 127.0.0.1, signed by itself, that the hosts of a pool trust."""

import subprocess
from pathlib import Path

from fetchwork.pool import PersonalPool

_REQUEST = (
    "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem",
)  # fmt: skip


def make_certificate(pool: PersonalPool, home: Path) -> None:
    """Write ``cert.pem`` and ``key.pem`` into a directory; from now on the pool's hosts trust the first."""
    subprocess.run(_REQUEST, cwd=home, check=True, capture_output=True)
    (pool.directory / f"tmp/{home.name}.pem").write_bytes((home / "cert.pem").read_bytes())
    trust = f"mkdir -p /etc/ssl/certs && cat /tmp/{home.name}.pem >> /etc/ssl/certs/ca-certificates.crt"
    done = pool.run_command(["sh", "-c", trust])
    assert done.returncode == 0, done.stderr
