"""The names that programs for HTCondor's bindings use, if they have a meaning here."""

import pickle
import subprocess
import sys
import textwrap

import htcondor2
import pytest

import fetchwork
from fetchwork.errors import FetchworkError, NotFound
from fetchwork.queue import Queue
from tests.support.direct_queue import DirectQueue

NAMES = """
    AdType AdTypes Collector DaemonType DaemonTypes FileTransferEventType HTCondorException JobAction JobEvent
    JobEventLog JobEventType JobStatus LogLevel PersonalPool QueryOpt QueryOpts Schedd Submit SubmitMethod
    SubmitResult SubsystemType TransactionFlag TransactionFlags disable_debug enable_debug enable_log
    param personal platform reload_config set_subsystem version
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_of_the_bindings_is_there(name: str) -> None:
    assert getattr(fetchwork, name) is not None


@pytest.mark.parametrize("name", ["Negotiator", "Startd", "Credd", "SecurityContext", "dags", "send_command"])
def test_what_has_no_meaning_here_says_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"fetchwork has no {name}: .*[a-z]"):
        getattr(fetchwork, name)


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


def test_a_collector_locates_the_queue_and_knows_the_slots(
    queue: Queue, slots: DirectQueue, conninfo: str
) -> None:
    slots.submit_many([{}] * 2)
    slots.started()
    collector = fetchwork.Collector(conninfo)
    ad = collector.locate(fetchwork.DaemonTypes.Schedd)
    assert (ad["MyType"], ad["TotalIdleJobs"], ad["TotalRunningJobs"]) == ("Scheduler", 1, 1)
    assert len(fetchwork.Schedd(ad).query()) == 2
    assert len(pickle.loads(pickle.dumps(fetchwork.Schedd(ad))).query()) == 2
    assert len(collector.query(fetchwork.AdTypes.Startd)) == len(queue.slots())
    assert collector.query(fetchwork.AdTypes.Schedd, "TotalIdleJobs > 5") == []
    (cut,) = collector.query(fetchwork.AdTypes.Schedd, projection=["name"])
    assert list(cut) == ["Name"]
    assert collector.query(fetchwork.AdTypes.Negotiator) == []
    assert collector.locateAll(fetchwork.DaemonTypes.Negotiator) == []
    with pytest.raises(NotFound, match="no Negotiator daemon"):
        collector.locate(fetchwork.DaemonTypes.Negotiator)


def test_the_import_of_the_package_stays_cheap() -> None:
    dear = ("htcondor2", "psycopg", "classad2")
    code = f"import fetchwork, sys; print(any(name in sys.modules for name in {dear}))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
