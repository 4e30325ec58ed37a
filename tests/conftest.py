"""The shared fixtures: PostgreSQL servers, and a database with the schema for each test.

``--postgres wheel|system`` runs the tests of SQL on one server only; without it they run on both (with the
system's one case of each), and all other tests on the wheel's. ``--all`` also runs the tests that ``make
test-all`` has and ``make test`` lacks; a test that is named on the command line runs without it. ``--load 4``
runs the tests beside four busy processes.
"""

import contextlib
import functools
import itertools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
from psycopg import sql
from pytest_postgresql.janitor import DatabaseJanitor
from xdist.scheduler import LoadScopeScheduling

from fetchwork import log
from fetchwork.pool.personal import DBNAME
from fetchwork.pool.postgres import SUPERUSER, PostgresServer, server_version, system_programs
from tests.support.clocks import clock  # noqa: F401 - a fixture
from tests.support.copies import VARIABLE as ORIGINALS
from tests.support.copies import begin_as_copy
from tests.support.direct_queue import DirectQueue
from tests.support.heavy import mark_further_cases
from tests.support.kept import is_kept, kept_database
from tests.support.leftovers import MEMORY, VARIABLE, in_memory, watch_over_this_run
from tests.support.load import Load
from tests.support.nursery import nursery  # noqa: F401 - a fixture
from tests.support.promtool import promtool  # noqa: F401 - a fixture
from tests.support.releases import later_release, old_release  # noqa: F401 - fixtures
from tests.support.small_disk import small_disk  # noqa: F401 - a fixture

SERVERS = ("wheel", "system")
#: beginning of the skip reason of tests that lack their HTCondor
NOT_TESTED = "not tested with the HTCondor"
#: the skip reason of tests that lack a C compiler
WITHOUT_COMPILER = "not tested: the compiled hooks, as there is no C compiler 'cc'"

# a test has its own database, so it waits for no other; a call that hangs is a defect, and is ended
SETTINGS = {
    "max_connections": "200",
    "deadlock_timeout": "200ms",
    "timezone": "UTC",
    # the default of one gigabyte would be in memory for each of ten servers
    "max_wal_size": "128MB",
    # PostgreSQL's default; every five seconds would start a process in each database, for tests that have
    # ended by then
    "autovacuum_naptime": "1min",
    # the system's server would compile a plan for longer than it runs it; the wheel's has no compiler
    "jit": "off",
}
#: free memory that the servers of all workers need
ROOM = 6 * 1024**3


#: tests that wait for minutes, and need little processor time: they begin first, and others run beside them
WAIT = ("tests/hooks/test_without_an_answer.py", "tests/condor/", "tests/dag/")

# the time of one example depends on the machine's load
hypothesis.settings.register_profile("test", deadline=None, print_blob=True)
# the same examples everywhere, so that a commit is good or not
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile("all", deadline=None, print_blob=True, max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run also what only `make test-all` runs")
    parser.addoption("--load", type=int, default=0, metavar="N", help="run beside N busy processes")
    parser.addoption("--postgres", choices=SERVERS, help="run the tests of SQL on this server only")
    parser.addoption("--seed", type=int, help="play this one of the seeded fault runs")
    parser.addoption(
        "--through", choices=("direct", "pgbouncer"), help="how the tests of SQL reach each server"
    )
    parser.addoption("--suites", help="Debian suites whose HTCondor to test, by comma")


def pytest_configure(config: pytest.Config) -> None:
    # a shell's background job ignores these signals, and so would processes that tests start and end by them
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    in_ci = os.environ.get("CI") == "true"
    hypothesis.settings.load_profile("all" if config.getoption("--all") else "ci" if in_ci else "test")
    if not hasattr(config, "workerinput"):
        watch_over_this_run()
        originals = contextlib.ExitStack()
        os.environ[ORIGINALS] = str(originals.enter_context(_directories(*_for_servers()))())
        config.add_cleanup(originals.close)
    # one load for all workers
    if config.getoption("--load") and not hasattr(config, "workerinput"):
        config.add_cleanup(Load(config.getoption("--load")).stop)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The number of workers for ``-n auto``: as many as the chosen tests can use; none for a single file,
    which so begins sooner.

    Each part of the tests with a real HTCondor has a worker, which mostly waits (``PARTS``); beside them
    there is one worker for each core.
    """
    tests = Path(__file__).parent
    asked = [Path(arg.partition("::")[0]).resolve() for arg in config.args]
    files = {file for path in asked for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    cores = len(os.sched_getaffinity(0))
    if any(tests / "condor" in file.parents for file in files):
        return min(cores + sum(map(len, PARTS.values())), len(files))
    return min(cores, len(files)) if len(files) > 1 else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that only ``make test-all`` runs, unless they were named; put the rest in order."""
    # a stable sort: all others stay in their order
    items.sort(key=lambda item: not item.nodeid.startswith(WAIT))
    if config.getoption("--all"):
        return
    mark_further_cases(items)
    named = tuple(arg.rpartition("/")[2] for arg in config.args if "::" in arg)

    def is_left_out(item: pytest.Item) -> bool:
        asked = bool(named) and item.nodeid.rpartition("/")[2].startswith(named)
        return item.get_closest_marker("all") is not None and not asked

    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        out = set(left_out)
        items[:] = [item for item in items if item not in out]


def pytest_make_parametrize_id(val: object) -> str | None:
    """A long value is named by its beginning: older versions of pytest put all of it into the environment."""
    if isinstance(val, str | bytes) and len(val) > 100:
        return f"{val[:60]!a} and so on, {len(val)}"
    return None


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Report a missing HTCondor or compiler in the last lines, not as one skip among others."""
    reasons = {str(report.longrepr[2]) for report in terminalreporter.getreports("skipped")}
    for what, begin in (("HTCONDOR", NOT_TESTED), ("A C COMPILER", WITHOUT_COMPILER)):
        missing = sorted(reason for reason in reasons if begin in reason)
        if missing:
            terminalreporter.section(f"{what} IS MISSING", sep="!", red=True, bold=True)
            for reason in missing:
                terminalreporter.line(reason, red=True)


# tests with pools of HTCondor, in parts of about equal time; an empty part is the rest of the folder. In
# tests/condor users of the fixture "pool" are in the first part, of "file_pool" in the third
PARTS = {
    "tests/condor": (
        ("test_jobs.py", "test_personal.py", "test_pool_condor.py", "test_same_job.py", "test_tracking.py"),
        ("test_scheduling.py", "test_slot_values.py", "test_timing.py", "test_worst_day.py"),
        (
            "test_files.py", "test_files_dav.py", "test_files_moto.py", "test_files_there_and_back.py",
            "test_checkpoints.py", "test_config_examples.py", "test_containers.py",
        ),
        ("test_pilot.py", "test_start_faults.py"),
        (),
    ),
    "tests/dag": (("test_as_over_a_schedd.py", "test_fidelity.py"), ()),
}  # fmt: skip


class ByFile(LoadScopeScheduling):
    """Tests of a file go to one worker, which shares the servers that they start; so do those of ``PARTS``.

    Each part has a pool at a time, which mostly waits. ``--dist loadgroup`` is for that, but xdist 3.8 finds
    no groups under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        folder, _, name = file.rpartition("/")
        parts = PARTS.get(folder)
        if parts is None:
            return file
        part = next((names for names in parts if name in names), parts[-1])
        return f"{folder}, part {parts.index(part)}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests in tests/sql run on each server, others on the wheel's."""
    if "postgres" not in metafunc.fixturenames:
        return
    asked = metafunc.config.getoption("--postgres")
    of_sql = "sql" in Path(metafunc.module.__file__).relative_to(Path(__file__).parent).parts
    servers = (asked,) if asked else SERVERS if of_sql else SERVERS[:1]
    metafunc.parametrize("postgres", servers, indirect=True, scope="session")


@contextlib.contextmanager
def _directories(where: Path | None = None, prefix: str = "fetchwork-test-") -> Iterator[Callable[[], Path]]:
    """Makes directories that any account may enter; they exist until the end."""
    made: list[tempfile.TemporaryDirectory[str]] = []

    def make() -> Path:
        made.append(tempfile.TemporaryDirectory(prefix=prefix, dir=where))
        path = Path(made[-1].name)
        path.chmod(0o755)
        return path

    yield make
    # a pool has some thousand files: a disk takes seconds for one, and hardly longer for several at once
    with ThreadPoolExecutor() as threads:
        for _ in threads.map(tempfile.TemporaryDirectory.cleanup, made):
            pass


@pytest.fixture(scope="session")
def public_directory() -> Iterator[Callable[[], Path]]:
    """Makes directories that any account may enter, which pytest's own are not."""
    with _directories() as make:
        yield make


@pytest.fixture(autouse=True)
def _nobody_has_caused_a_line() -> None:
    """Log lines that one test has caused do not suppress those of the next."""
    log._caused.clear()


def _memory_has_room() -> bool:
    """Whether PostgreSQL servers can have their files in memory."""
    try:
        free = shutil.disk_usage(MEMORY).free
        found = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    return free >= ROOM and found is not None and int(found[1]) * 1024 >= 2 * ROOM


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Callable[[], Path]]:
    """Makes directories for PostgreSQL servers whose data is disposable: in memory, if there is room.

    A test's database is some hundred files that are made and removed, which can take a disk longer than the
    test takes.
    """
    with _directories(*_for_servers()) as make:
        yield make


def _for_servers() -> tuple[Path, str] | tuple[()]:
    return (MEMORY, in_memory(os.environ[VARIABLE])) if _memory_has_room() else ()


@pytest.fixture(scope="session")
def _postgres_servers(server_directory: Callable[[], Path]) -> Iterator[Callable[[str], PostgresServer]]:
    """Each server is started once a session, with the schema in ``DBNAME``, when first asked for."""
    servers: dict[str, PostgresServer] = {}

    def start(which: str) -> PostgresServer:
        if which not in servers:
            programs = system_programs() if which == "system" else None
            server = PostgresServer(
                server_directory() / "postgres", programs=programs, settings=SETTINGS, durable=False
            )
            servers[which] = begin_as_copy(server, programs)
            server.start()
        return servers[which]

    yield start
    for server in servers.values():
        server.stop("immediate")


@pytest.fixture(scope="session")
def postgres(
    request: pytest.FixtureRequest, _postgres_servers: Callable[[str], PostgresServer]
) -> PostgresServer:
    """A PostgreSQL server for the whole session; a test that stops or crashes it starts its own instead."""
    if request.param == "system" and system_programs() is None:
        pytest.skip("no PostgreSQL of the system: nothing in /usr/lib/postgresql/*/bin")
    return _postgres_servers(request.param)


_numbers = itertools.count(1)


class CopiedDatabase(DatabaseJanitor):
    """A copy of the template's files, which in memory costs less than writing each page to the log too."""

    def _build_create_database_sql(self) -> sql.Composed:
        return super()._build_create_database_sql() + sql.SQL(" STRATEGY file_copy")


@functools.cache
def _janitor(directory: Path, programs: Path) -> type[DatabaseJanitor]:
    # PostgreSQL 14 has only one way
    is_copied = MEMORY in directory.parents and not server_version(programs).startswith("14.")
    return CopiedDatabase if is_copied else DatabaseJanitor


@pytest.fixture
def new_database(postgres: PostgresServer) -> Iterator[Callable[[], str]]:
    """Makes databases that have only the schema; returns the superuser's connection string."""
    janitor = _janitor(postgres.directory, postgres.programs)
    with contextlib.ExitStack() as stack:

        def make() -> str:
            dbname = f"test_{os.getpid()}_{next(_numbers)}"
            stack.enter_context(
                janitor(
                    user=SUPERUSER,
                    host="127.0.0.1",
                    port=postgres.port,
                    dbname=dbname,
                    template_dbname=DBNAME,
                    password=postgres.password,
                )
            )
            return postgres.conninfo(dbname)

        yield make


@pytest.fixture
def conninfo(
    request: pytest.FixtureRequest, postgres: PostgresServer, new_database: Callable[[], str]
) -> str:
    """The superuser's connection string of a database that has only the schema: new, or restored."""
    return kept_database(postgres) if is_kept(request.module.__name__) else new_database()


Connect = Callable[..., psycopg.Connection]


@pytest.fixture
def connect(conninfo: str) -> Iterator[Connect]:
    """Opens connections to the test's database, in autocommit unless asked otherwise, as ``role``."""
    opened: list[psycopg.Connection] = []

    def open_connection(*, role: str | None = None, autocommit: bool = True) -> psycopg.Connection:
        connection = psycopg.connect(conninfo, autocommit=True, application_name="test")
        opened.append(connection)
        if role:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        connection.autocommit = autocommit
        return connection

    yield open_connection
    for connection in opened:
        connection.close()


@pytest.fixture
def slots(connection: psycopg.Connection) -> DirectQueue:
    """Plays hosts and slots on the test's database."""
    return DirectQueue(connection)


@pytest.fixture
def connection(connect: Connect) -> psycopg.Connection:
    """One connection of the superuser to the test's database, in autocommit."""
    return connect()
