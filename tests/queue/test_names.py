"""The public names, and the bindings' names for what they do."""

import pickle
import subprocess
import sys
import textwrap

import htcondor2
import pytest

import fetchwork
from fetchwork.errors import FetchworkError, NotFound
from tests.queue.conftest import Queue


@pytest.mark.parametrize("name", fetchwork.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(fetchwork, name) is not None


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="module 'fetchwork' has no attribute 'Schedd'"):
        getattr(fetchwork, "Schedd")  # noqa: B009 - mypy knows that it is not there


def test_a_program_catches_what_fetchwork_raises(queue: Queue) -> None:
    with pytest.raises(fetchwork.HTCondorException):
        queue.submit("no description")
    assert fetchwork.HTCondorException is htcondor2.HTCondorException
    assert issubclass(FetchworkError, htcondor2.HTCondorException)
    with pytest.raises(htcondor2.HTCondorException):
        queue.query("(((")


@pytest.mark.parametrize("series", ["htcondor2", "htcondor"])
def test_a_program_that_imports_the_bindings_itself_catches_what_fetchwork_raises(series: str) -> None:
    """Before any import of fetchwork has imported them."""
    code = f"""
        import warnings
        warnings.simplefilter("ignore")
        import fetchwork.db.database
        from fetchwork.errors import ClassAdError, DatabaseUnavailable
        import {series} as bindings
        try:
            fetchwork.db.database.Database("host=/nowhere").query("SELECT 1")
        except bindings.HTCondorException as error:
            print(isinstance(error, DatabaseUnavailable), issubclass(ClassAdError, ValueError))
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "True True\n"


def test_a_collector_locates_the_queue_and_knows_the_slots(queue: Queue, conninfo: str) -> None:
    queue.direct.submit_many([{}] * 2)
    queue.direct.started()
    collector = fetchwork.Collector(conninfo)
    ad = collector.locate(fetchwork.DaemonType.Schedd)
    assert (ad["MyType"], ad["TotalIdleJobs"], ad["TotalRunningJobs"]) == ("Scheduler", 1, 1)
    assert len(Queue(ad).query()) == 2
    assert len(pickle.loads(pickle.dumps(Queue(ad))).query()) == 2
    assert len(collector.query(fetchwork.AdType.Startd)) == len(queue.slots())
    assert collector.query(fetchwork.AdType.Schedd, "TotalIdleJobs > 5") == []
    (cut,) = collector.query(fetchwork.AdType.Schedd, projection=["name"])
    assert list(cut) == ["Name"]
    assert collector.query(fetchwork.AdType.Negotiator) == []
    assert collector.locateAll(fetchwork.DaemonType.Negotiator) == []
    with pytest.raises(NotFound, match="no Negotiator daemon"):
        collector.locate(fetchwork.DaemonType.Negotiator)


def test_the_import_of_the_package_stays_cheap() -> None:
    dear = ("htcondor2", "psycopg", "classad2")
    code = f"import fetchwork, sys; print(any(name in sys.modules for name in {dear}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
