"""HTCondor's own reader of event logs reads back the written entries."""

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import htcondor2
import pytest

from fetchwork.accesspoint.logstate import StateFile
from fetchwork.errors import FetchworkError
from fetchwork.ipc import frames
from fetchwork.queue.events import logentry
from fetchwork.queue.events.jobevents import Cursor, JobEvent
from tests.support.waiting import PATIENCE_S


def event(type_number: int, **info: Any) -> JobEvent:
    import json

    return JobEvent(f"812\t4071\t{type_number}\t42\t7\t3\t1795225768.25\t{json.dumps(info)}")


def read_back(tmp_path: Path, *events: JobEvent, xml: bool = False) -> list[htcondor2.JobEvent]:
    log = tmp_path / "job.log"
    log.write_text("".join(event.entry(xml=xml) for event in events))
    with htcondor2.JobEventLog(str(log)) as reader:
        return list(reader.events(stop_after=0))


CASES: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
    (
        0,
        {"SubmitHost": "10.0.0.1", "LogNotes": "DAG Node: A"},
        {"SubmitHost": "<10.0.0.1:0>", "LogNotes": "DAG Node: A"},
    ),
    (
        0,
        {"SubmitHost": "10.0.0.1", "LogNotes": "DAG Node: A", "UserNotes": "of mine"},
        {"SubmitHost": "<10.0.0.1:0>", "LogNotes": "DAG Node: A", "UserNotes": "of mine"},
    ),
    (
        1,
        {"ExecuteHost": "ep17", "SlotName": "slot1@ep17"},
        {"ExecuteHost": "<ep17:0>", "SlotName": "slot1@ep17"},
    ),
    (
        4,
        {"Checkpointed": False, "TerminatedAndRequeued": False, "Reason": "drained"},
        {"Checkpointed": False},
    ),
    (
        4,
        {
            "TerminatedAndRequeued": True,
            "TerminatedNormally": True,
            "ReturnValue": 3,
            "Reason": "OnExitRemove is false",
        },
        {"TerminatedAndRequeued": True, "TerminatedNormally": True, "ReturnValue": 3},
    ),
    (5, {"TerminatedNormally": True, "ReturnValue": 3}, {"TerminatedNormally": True, "ReturnValue": 3}),
    (
        5,
        {"TerminatedNormally": False, "TerminatedBySignal": 9, "RunUserCpu": 90061.5},
        {
            "TerminatedNormally": False,
            "TerminatedBySignal": 9,
            "RunRemoteUsage": "Usr 1 01:01:01, Sys 0 00:00:00",
        },
    ),
    (
        5,
        {
            "TerminatedNormally": True,
            "ReturnValue": 0,
            **{
                "SentBytes": 3,
                "ReceivedBytes": 12345678848,
                "TotalSentBytes": 4.0,
                "TotalReceivedBytes": 6.0,
            },
        },
        {"SentBytes": 3.0, "ReceivedBytes": 12345678848.0, "TotalSentBytes": 4.0, "TotalReceivedBytes": 6.0},
    ),
    (4, {"SentBytes": 3, "ReceivedBytes": 5}, {"SentBytes": 3.0, "ReceivedBytes": 5.0}),
    (
        6,
        {"Size": 1234, "MemoryUsage": 2, "ResidentSetSize": 1000},
        {"Size": 1234, "MemoryUsage": 2, "ResidentSetSize": 1000},
    ),
    (9, {"Reason": "via fetchwork rm"}, {"Reason": "via fetchwork rm"}),
    (10, {"NumberOfPIDs": 2}, {"NumberOfPIDs": 2}),
    (11, {}, {}),
    (
        12,
        {"HoldReason": "no\n...\n005 such file", "HoldReasonCode": 6, "HoldReasonSubCode": 2},
        {"HoldReason": "no ... 005 such file", "HoldReasonCode": 6, "HoldReasonSubCode": 2},
    ),
    (13, {"Reason": "via fetchwork release"}, {"Reason": "via fetchwork release"}),
]


@pytest.mark.parametrize("xml", [False, True], ids=["text", "xml"])
@pytest.mark.parametrize(("number", "info", "expected"), CASES)
def test_htcondor_reads_every_kind_of_event(
    number: int, info: dict[str, Any], expected: dict[str, Any], xml: bool, tmp_path: Path
) -> None:
    if xml and "HoldReason" in info:
        # only the text form has no line breaks in a reason
        expected = {**expected, "HoldReason": info["HoldReason"]}
    (found,) = read_back(tmp_path, event(number, **info), xml=xml)
    assert (found.type, found.cluster, found.proc) == (htcondor2.JobEventType(number), 42, 7)
    assert found.timestamp == 1795225768
    assert {name: found[name] for name in expected} == expected


def test_entries_follow_each_other(tmp_path: Path) -> None:
    found = read_back(tmp_path, *(event(number, **info) for number, info, _ in CASES))
    assert [int(one.type) for one in found] == [number for number, _, _ in CASES]


@pytest.mark.parametrize(("number", "info", "expected"), CASES)
def test_an_event_has_the_names_that_htcondor_gives_it(
    number: int, info: dict[str, Any], expected: dict[str, Any], tmp_path: Path
) -> None:
    ours = event(number, **info)
    (theirs,) = read_back(tmp_path, ours)
    for name in ("MyType", "EventTypeNumber", "Cluster", "Proc", "Subproc"):
        assert ours[name] == theirs[name]
        assert ours[name.lower()] == theirs[name]
    assert set(info) - {"RunUserCpu", "Reason"} <= set(theirs)
    assert (ours.type, ours.cluster, ours.proc, ours.timestamp) == (
        theirs.type,
        theirs.cluster,
        theirs.proc,
        theirs.timestamp,
    )
    assert ours["EventTime"][:19] == theirs["EventTime"][:19]


# attributes that the database stores with an event beside HTCondor's
OURS = {"RunSeconds", "RunUserCpu", "RunSysCpu", "TotalUserCpu", "TotalSysCpu", "RunEnding"}
WHOLE: list[tuple[int, dict[str, Any]]] = [
    (0, {"SubmitHost": "fe80::1", "LogNotes": "a note"}),
    (
        1,
        {
            "ExecuteHost": "ep17",
            "SlotName": "slot1@ep17",
            "ExecuteProps": {"Cpus": 1, "Memory": 512, "Disk": 1000},
        },
    ),
    (
        4,
        {
            "Checkpointed": False,
            "TerminatedAndRequeued": True,
            "TerminatedNormally": True,
            "ReturnValue": 3,
            "Reason": "OnExitRemove is false",
            "RunSeconds": 4.5,
            "RunUserCpu": 1.5,
            "RunSysCpu": 90061.5,
        },
    ),
    (
        4,
        {
            "Checkpointed": False,
            "TerminatedAndRequeued": False,
            "TerminatedNormally": False,
            "Reason": "drained",
            "RunSeconds": 4,
            "RequestCpus": 1,
            "RequestMemory": 128,
            "MemoryUsage": 3,
        },
    ),
    (
        5,
        {
            "TerminatedNormally": True,
            "ReturnValue": 3,
            "RunSeconds": 4.5,
            "RunUserCpu": 1.5,
            "RunSysCpu": 2,
            "TotalUserCpu": 62,
            "TotalSysCpu": 3,
            "RequestCpus": 1,
            "RequestMemory": 128,
            "RequestDisk": 1,
            "Cpus": 2,
            "Memory": 512,
            "Disk": 1000,
            "CpusUsage": 0.5,
            "MemoryUsage": 3,
            "DiskUsage": 28,
        },
    ),
    (5, {"TerminatedNormally": False, "TerminatedBySignal": 9, "RunSeconds": 2}),
    (12, {"HoldReason": "look", "HoldReasonCode": 3, "HoldReasonSubCode": 42, "RunEnding": True}),
]


@pytest.mark.parametrize(
    ("number", "info"), [*WHOLE, *((n, i) for n, i, _ in CASES if n in (6, 9, 10, 11, 13))]
)
def test_an_event_has_exactly_the_attributes_that_htcondor_reads_from_its_text(
    number: int, info: dict[str, Any], tmp_path: Path
) -> None:
    ours = event(number, **info)
    (theirs,) = read_back(tmp_path, ours)
    told = {name: value for name, value in ours.items() if name not in OURS}
    if "ExecuteProps" in theirs:
        assert dict(told.pop("ExecuteProps")) == dict(theirs["ExecuteProps"])
    if number == 4:
        # HTCondor writes the table there too, and does not read it
        told = {name: value for name, value in told.items() if not name.startswith(("Request", "Memory"))}
    assert {name: told[name] for name in told if name != "ExecuteProps"} == {
        name: theirs[name] for name in theirs if name != "ExecuteProps"
    }


def test_an_event_s_attributes_can_not_be_set() -> None:
    for name in ("type", "cluster", "proc", "timestamp", "cursor", "type_number", "run_id"):
        with pytest.raises(AttributeError):
            setattr(event(5), name, 1)


def test_a_cursor_is_text_and_back() -> None:
    assert str(Cursor.parse(event(5).cursor)) == "e812.4071"
    for wrong in ("", "812", "a.b", "e1.2.3", "e-1.2", f"e{2**63}.1", f"e1.{2**63}"):
        with pytest.raises(ValueError, match="allowed"):
            Cursor.parse(wrong)
    with pytest.raises(ValueError, match=r"^cursor '812\.4071' was made by an earlier fetchwork"):
        Cursor.parse("812.4071")


def test_the_state_of_an_earlier_fetchwork_is_told_in_a_line(tmp_path: Path) -> None:
    file = tmp_path / "logs.json"
    file.write_text('{"cursor": "812.4071", "behind": [], "saved_at": 1}')
    told = r"^cannot read state file '.*logs.json': cursor '812\.4071' was made by an earlier fetchwork"
    with pytest.raises(FetchworkError, match=told):
        StateFile(file).load()


def test_a_text_of_an_event_is_what_htcondor_s_reader_shows(tmp_path: Path) -> None:
    for number, info, _ in CASES:
        written = event(number, **info)
        (read,) = read_back(tmp_path, written)
        assert not str(written).endswith("...\n")
        assert written["EventTime"] == read["EventTime"]
        assert len(written["EventTime"]) == len("2026-01-31T12:00:00")


def test_a_missing_attribute_is_named_as_it_was_asked_for() -> None:
    with pytest.raises(KeyError, match=r"^'NoSuchThing'$"):
        event(0)["NoSuchThing"]


def test_every_host_has_a_port_which_condor_userlog_needs() -> None:
    for host in ("ep17", "10.0.0.1", "fe80::1", "<10.0.0.1:9618?alias=x>"):
        line = str(event(1, ExecuteHost=host)).splitlines()[0]
        assert re.search(r"host: <(\[[0-9a-f:]+\]|[^:]+):\d+[?>]", line)


def test_a_terminated_job_s_entry_has_the_table_of_resources(tmp_path: Path) -> None:
    ended = event(5, TerminatedNormally=True, ReturnValue=0, RequestCpus=1, RequestMemory=128, MemoryUsage=3)
    assert "Partitionable Resources" in str(ended)
    assert "Job terminated of its own accord at" in str(ended)
    (read,) = read_back(tmp_path, ended)
    assert (read["RequestMemory"], read["MemoryUsage"], read["RequestCpus"]) == (128, 3, 1)


def test_entries_of_both_forms_are_found_and_what_was_cut_behind_them() -> None:
    """Even if a text in an entry ends as an entry does; other text is never taken for a cut entry."""
    one, other = event(0, LogNotes="and so on..."), event(9, Reason="enough")
    entries = [one.entry(xml=False), other.entry(xml=True), other.entry(xml=False), one.entry(xml=True)]
    data = [entry.encode() for entry in entries]
    assert logentry.split(b"".join(data)) == (data, b"")
    for entry in data:
        for length in range(1, len(entry)):
            assert logentry.split(data[0] + entry[:length]) == (data[:1], entry[:length])
    for foreign in (b"my notes\nof 2026\n", b"2026 was good\n", b"<html>\n", b"0042"):
        assert logentry.split(foreign) == ([], b"")


def test_a_log_keeps_what_is_in_it_when_entries_are_looked_for_at_its_end(tmp_path: Path) -> None:
    """As after a start of the access point; two jobs may share a log, one with log_xml."""
    log = tmp_path / "job.log"
    text, xml = event(0, LogNotes="so on...").entry(xml=False), event(9).entry(xml=True)

    def append(entries: list[str]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            program = (
                "import socket, sys; from fetchwork.accesspoint import child;"
                " child.serve(socket.socket(fileno=int(sys.argv[1])))"
            )
            with subprocess.Popen(
                [sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            ) as process:
                theirs.close()
                request = {"do": "append", "path": str(log), "entries": entries, "check": True}
                ours.sendall(frames.encode(request))
                answer = frames.Reader(ours).receive()
                ours.shutdown(socket.SHUT_RDWR)
                assert process.wait(timeout=PATIENCE_S) == 0
        assert answer is not None and "written" in answer, answer

    log.write_text("what I did today\n")
    append([text])
    append([xml])
    assert log.read_text() == f"what I did today\n{text}{xml}"
    log.write_text(f"{text}{xml}{text[:20]}")
    append([text, xml])
    assert log.read_text() == f"{text}{xml}"
    append([text, text])
    assert log.read_text() == f"{text}{xml}{text}"
