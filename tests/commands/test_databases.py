"""HTCondor's commands on a machine that knows several databases: -name chooses one, -global all."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.queue import Queue
from fetchwork.queue.remote import opened


@pytest.fixture
def run(
    new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, utc: None
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command on a machine where ``main`` has two jobs and ``physics`` three."""
    text = ""
    for name, jobs in (("main", 2), ("physics", 3)):
        conninfo = new_database()
        with Queue(conninfo) as queue:
            queue.submit([{"Cmd": "/bin/true", "Owner": "alice"}] * jobs)
        text += f'[database.{name}]\nconninfo = "{conninfo}"\n'
    (tmp_path / "databases.toml").write_text(text)
    for variable in ("FETCHWORK_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FETCHWORK_DATABASES", str(tmp_path / "databases.toml"))
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", "none")

    def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
        out, err = io.BytesIO(), io.BytesIO()
        invocation = Invocation(
            words,
            io.BytesIO(stdin.encode()),
            out,
            err,
            lambda: opened(None),
            environment={},
            directory=tmp_path,
            user="alice",
        )
        status = commands.run(invocation)
        invocation.close()
        return status, out.getvalue().decode(), err.getvalue().decode()

    return run


def test_name_is_that_of_a_database(run: Callable[..., tuple[int, str, str]]) -> None:
    assert run("condor_q", "-af:j", "Owner")[1] == "1.0 alice\n1.1 alice\n"
    assert run("condor_q", "-name", "physics", "-af", "ProcId")[1] == "0\n1\n2\n"
    assert run("condor_rm", "-name", "physics", "1.2")[1] == "Job 1.2 marked for removal\n"
    assert run("condor_history", "-name", "physics", "-af", "ProcId")[1] == "2\n"
    assert run("condor_history", "-af", "ProcId")[1] == ""
    submitted = run("condor_submit", "-name", "physics", stdin="executable = /bin/true\nqueue\n")
    assert submitted[1].endswith("submitted to cluster 2.\n")
    assert run("condor_q", "-name", "physics", "2.0", "-af", "ProcId")[1] == "0\n"
    # that of a schedd means nothing here
    assert run("condor_q", "-name", "submit.example.org", "-af", "ProcId")[1] == "0\n1\n"


def test_global_is_all_of_them_one_after_the_other(run: Callable[..., tuple[int, str, str]]) -> None:
    assert run("condor_q", "-global", "-allusers", "-af", "ProcId")[1] == "0\n1\n0\n1\n2\n"
    status, out, err = run("condor_q", "-g", "-nobatch")
    assert (status, err) == (0, "")
    titles = [line.split()[2] for line in out.splitlines() if line.startswith("-- Schedd: ")]
    assert titles == ["main", "physics"]
    assert "Total for query: 2 jobs" in out and "Total for query: 3 jobs" in out
