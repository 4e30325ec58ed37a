"""A pool of several databases: each by its name, all of them as one, replicas for reading."""

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork import cli
from fetchwork.classad.bindings import DaemonType
from fetchwork.errors import ConfigError, FetchworkError
from fetchwork.queue import Queue, databases
from fetchwork.queue.collector import Collector
from tests.queue.conftest import Run, Told


def write(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this be the machine's only source of databases."""
    path.write_text(text)
    for variable in ("FETCHWORK_DSN", "PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FETCHWORK_DATABASES", str(path))
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", "none")


@pytest.fixture
def two(new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Databases that the machine knows as ``main`` and ``physics``, each with jobs of its own."""
    main, physics = new_database(), new_database()
    with Queue(main) as queue:
        queue.submit([{"Cmd": "/bin/true", "Owner": "alice"}] * 2)
    with Queue(physics) as queue:
        queue.submit([{"Cmd": "/bin/true", "Owner": "alice"}] * 3)
        queue.submit({"Cmd": "/bin/true", "Owner": "bob", "JobBatchName": "night"})
    write(
        tmp_path / "databases.toml",
        f'[database.main]\nconninfo = "{main}"\n[database.physics]\nconninfo = "{physics}"\n',
        monkeypatch,
    )
    return main, physics


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, which finds its database by itself."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: str) -> Told:
        capsys.readouterr()
        status = cli.run(list(words))
        return Told(status, *capsys.readouterr())

    return command


@pytest.mark.usefixtures("two")
def test_first_one_counts_where_none_is_named(run: Run) -> None:
    assert run("q", "-af:j", "Owner").out == "1.0 alice\n1.1 alice\n"
    assert run("q", "-name", "physics", "-af:j", "Owner").out.count("\n") == 4
    assert run("rm", "-name", "physics", "2").status == 0
    assert run("q", "-name", "physics", "-af:j", "Owner").out.count("\n") == 3
    assert run("q", "-af:j", "Owner").out.count("\n") == 2


@pytest.mark.usefixtures("two")
def test_all_are_one_queue_to_read(run: Run) -> None:
    assert run("q", "-global", "-af:j", "Owner", "ScheddName").out.splitlines() == [
        "1.0 alice main",
        "1.1 alice main",
        "1.0 alice physics",
        "1.1 alice physics",
        "1.2 alice physics",
        "2.0 bob physics",
    ]
    # of each database
    assert run("q", "-global", "-limit", "2", "-af:j", "Owner").out.count("\n") == 4
    assert re.findall(r"Total for query: (\d) jobs", run("q", "-global", "-totals").out) == ["2", "4"]
    assert re.findall(r"Total for query: (\d) jobs", run("q", "-global", "bob", "-totals").out) == ["0", "1"]
    (totals,) = json.loads(run("q", "-global", "-totals", "--json").out)
    assert totals["jobs"] == 6
    by_owner = json.loads(run("q", "-global", "--by", "owner", "--json").out)
    assert [(row["owner"], row["jobs"]) for row in by_owner] == [("alice", 5), ("bob", 1)]
    by_autocluster = json.loads(run("q", "-global", "--by", "autocluster", "--json").out)
    assert sorted(row["autocluster"] for row in by_autocluster) == ["main:1", "physics:1", "physics:2"]
    assert len([line for line in run("q", "-global").out.splitlines() if line.startswith("alice")]) == 2
    run("rm", "1")
    run("rm", "-name", "physics", "2")
    assert run("history", "-global").status == 0
    ended = json.loads(run("history", "-global", "--json").out)
    assert [(ad["ScheddName"], ad["ClusterId"]) for ad in ended] == [("main", 1), ("main", 1), ("physics", 2)]


@pytest.mark.usefixtures("two")
def test_wait_is_for_jobs_of_the_one_that_is_named(run: Run) -> None:
    run("rm", "-name", "physics", "1")
    # removed there: it failed; the job of the same number here waits
    assert run("wait", "-name", "physics", "-q", "1").status == 1
    assert run("wait", "-q", "-t", "0", "1").status == 124


@pytest.mark.usefixtures("two")
def test_queue_in_python_is_one_of_them_or_all() -> None:
    with Queue(name="physics") as queue, pickle.loads(pickle.dumps(queue)) as again:
        assert len(queue.query()) == len(again.query()) == 4
    with Queue(everywhere=True) as queue:
        assert {(ad["ScheddName"], ad["ClusterId"]) for ad in queue.query()} == {
            ("main", 1),
            ("physics", 1),
            ("physics", 2),
        }
        with pytest.raises(FetchworkError, match="'submit' works on one database: give its name"):
            queue.submit({"Cmd": "/bin/true"})
        with pytest.raises(FetchworkError, match="'edit' works on one database"):
            queue.edit("1.0", "Foo", 1)


@pytest.mark.usefixtures("two")
def test_each_is_a_schedd_that_a_collector_locates() -> None:
    ads = Collector().locateAll(DaemonType.Schedd)
    assert [(ad["Name"], ad["TotalIdleJobs"]) for ad in ads] == [("main", 2), ("physics", 4)]
    assert len(Queue(Collector().locate(DaemonType.Schedd, "physics")).query()) == 4


def test_database_that_is_away_is_no_schedd_and_is_named_by_what_asks_it(
    new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    away = "host=127.0.0.1 port=1 dbname=jobs"
    write(
        tmp_path / "databases.toml",
        f'[database.main]\nconninfo = "{new_database()}"\n[database.away]\nconninfo = "{away}"\n',
        monkeypatch,
    )
    assert [ad["Name"] for ad in Collector().locateAll(DaemonType.Schedd)] == ["main"]
    told = run("q", "-global")
    assert told.status == 1
    assert told.err.count("\n") == 1
    assert "'away'" in told.err


def test_replica_is_read_and_never_changed(
    new_database: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """A replica with other content plays the second of two databases."""
    primary, replica = new_database(), new_database()
    with Queue(replica) as queue:
        queue.submit({"Cmd": "/bin/old", "Owner": "alice"})
    write(
        tmp_path / "databases.toml",
        f'[database.main]\nconninfo = "{primary}"\nreplica = "{replica}"\n',
        monkeypatch,
    )
    assert run("q", "-af", "Cmd").out == "/bin/old\n"
    assert run("q", "-global", "-af", "Cmd").out == "/bin/old\n"
    (tmp_path / "a.sub").write_text("executable = /bin/new\ntransfer_executable = false\nqueue\n")
    assert run("submit", str(tmp_path / "a.sub"), "--owner", "alice").status == 0
    assert [ad["Cmd"] for ad in Queue(primary).query()] == ["/bin/new"]
    assert run("q", "-af", "Cmd").out == "/bin/old\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("database = 3\n", "allowed: tables [database.NAME], one at least"),
        ("[database.a]\nreplica = 'x'\n", "[database.a]: no conninfo"),
        (
            "[database.a]\nconninfo = 'x'\nqueue = 'y'\n",
            "[database.a]: queue; allowed: the texts conninfo, replica",
        ),
        ("[database.a\n", "databases.toml: "),
    ],
)
def test_what_is_wrong_with_the_list_is_said(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    write(tmp_path / "databases.toml", text, monkeypatch)
    with pytest.raises(ConfigError) as caught:
        databases.known()
    assert problem in str(caught.value)
    told = run("q")
    assert (told.status, told.err.count("\n")) == (1, 1)


def test_names_that_are_not_known_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    write(tmp_path / "databases.toml", "[database.a]\nconninfo = 'x'\n", monkeypatch)
    assert "there is no database 'b'; allowed: 'a'" in run("q", "-name", "b").err
    assert "only one can be given" in run("q", "-name", "a", "-global").err
    monkeypatch.setenv("FETCHWORK_DATABASES", str(tmp_path / "nothing.toml"))
    assert "no such file, which FETCHWORK_DATABASES names" in run("q").err
    monkeypatch.delenv("FETCHWORK_DATABASES")
    monkeypatch.setattr(databases, "FILE", str(tmp_path / "nothing.toml"))
    assert "no databases are named" in run("q", "-global").err
