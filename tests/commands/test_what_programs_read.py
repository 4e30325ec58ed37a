"""The output of HTCondor's commands, parsed by the expressions in other programs' own sources.

Nextflow, Galaxy and Pulsar, DIRAC, ARC, and blahp cannot be installed here; tests/clients runs the programs
that can.
"""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.codes import EventType
from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.queue.events.jobevents import JobEvent
from fetchwork.queue.session import Session
from tests.support.direct_queue import DirectQueue

JOB = "executable = /bin/sleep\narguments = 9\nqueue {}\n"


pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture
def said(session: Session, tmp_path: Path) -> Callable[..., str]:
    """Returns a command's stdout, if it succeeds and prints nothing on stderr."""

    def said(*words: str, stdin: str = "") -> str:
        out, err = io.BytesIO(), io.BytesIO()
        status = commands.run(
            Invocation(
                words,
                io.BytesIO(stdin.encode()),
                out,
                err,
                lambda: session,
                environment={},
                directory=tmp_path,
                user="alice",
            )
        )
        assert (status, err.getvalue()) == (0, b""), words
        return out.getvalue().decode()

    return said


def nextflow_queue(text: str) -> dict[str, str]:
    """As CondorExecutor.parseQueueStatus does it: from the header line on, columns 0 and 5."""
    found: dict[str, str] = {}
    started = False
    for line in text.splitlines():
        if not started:
            started = line.startswith(" ID ")
            continue
        if not line.strip():
            break
        columns = line.split()
        found[columns[0]] = columns[5]
    return found


def test_nextflow_reads_ids_and_states(said: Callable[..., str], slots: DirectQueue, tmp_path: Path) -> None:
    (tmp_path / ".command.condor").write_text(JOB.format(1))
    first = said("condor_submit", "--terse", ".command.condor")
    assert re.split(r"[ -]", first)[0] == "1.0"
    said("condor_submit", "--terse", ".command.condor")
    slots.started()
    said("condor_submit", stdin="hold = true\n" + JOB.format(1))
    assert nextflow_queue(said("condor_q", "-nobatch")) == {"1.0": "R", "2.0": "I", "3.0": "H"}
    said("condor_rm", "1.0", "2.0", "3.0")
    assert set(nextflow_queue(said("condor_q", "-nobatch"))) == {"1.0"}


def test_galaxy_and_pulsar_read_the_submission_and_the_event_log(said: Callable[..., str]) -> None:
    out = said("condor_submit", stdin=JOB.format(1))
    # pulsar.managers.util.condor: submission_to_external_id
    found = re.search(r"submitted to cluster (\d+)", out)
    assert found is not None and found[1] == "1"
    log = "".join(
        JobEvent(f"1\t{n}\t{number}\t43\t0\t-1\t1795225768\t{{}}").log_entry
        for n, number in enumerate((EventType.SUBMIT, EventType.EXECUTE, EventType.JOB_TERMINATED))
    )
    # galaxy.jobs.runners.util.condor: summarize_condor_log
    for number in ("001", "005"):
        assert f"{number} ({'43'.zfill(3)}." in log
    assert f"004 ({'43'.zfill(3)}." not in log and f"009 ({'43'.zfill(3)}." not in log


def test_dirac_reads_submissions_states_and_history(said: Callable[..., str], slots: DirectQueue) -> None:
    described = 'executable = /bin/sleep\nenvironment = "STAMP=$(stamp)"\nQueue stamp in a1,b2,c3\n'
    out = said("condor_submit", stdin=described)
    found = re.match(r"(\d+) job.*cluster (\d+)\.", out.splitlines()[1])
    assert found is not None and found.groups() == ("3", "1")
    slots.finish(slots.started(), ExitCode=0)
    slots.started("slot2@h1")
    attributes = ("JobStatus", "HoldReasonCode", "HoldReasonSubCode", "HoldReason")
    lines = said("condor_q", "-submitter", "alice", "-af:j", *attributes).splitlines()
    assert [line.split()[:2] for line in lines] == [["1.1", "2"], ["1.2", "1"]]
    assert lines[0].split()[2:] == ["undefined"] * 3
    # DIRAC also passes -submitter alice, which HTCondor's condor_history does not know either
    history = said("condor_history", "-af:j", *attributes)
    assert history.split()[:2] == ["1.0", "4"]
    table = said("condor_q", "-submitter", "alice", "-nobatch")
    assert (table.count(" I "), table.count(" R ")) == (1, 1)


def test_arc_and_blahp_read_attributes_and_the_submit_line(
    said: Callable[..., str], slots: DirectQueue
) -> None:
    out = said("condor_submit", stdin=JOB.format(1))
    # submit-condor-job: the 8th word of both lines, with its dot
    assert out.split()[7] == "1."
    slots.started()
    text = said("condor_q", "-format", "JobStatus = %V\n", "JobStatus", "-format", "Owner = %V\n", "Owner")
    assert dict(re.findall(r"(\w+) = (.*)\n", text)) == {"JobStatus": "2", "Owner": '"alice"'}
    assert re.search(r"(\d+) jobs;.* (\d+) idle, (\d+) running", said("condor_q", "-total")) is not None
    said("condor_rm", "1.0")
    text = said("condor_q", "-format", "%d\n", "JobStatus")
    assert text == "3\n"
