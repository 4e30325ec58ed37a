"""The commands on a queue: HTCondor's words, statuses and streams, and the output that programs parse."""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.condor import commands, directory
from fetchwork.condor.invocation import Invocation
from fetchwork.dag import dagrun
from fetchwork.queue.session import Session
from fetchwork.queue.submitting.submission import put
from fetchwork.queue.submitting.unmet import unmet
from tests.commands.oracle import Answer
from tests.support.direct_queue import DirectQueue

SLEEP = "executable = /bin/sleep\narguments = $(Process)\nrequest_memory = 10\nqueue {}\n"


def test_submit_says_what_programs_look_for(condor: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "sleep.sub").write_text(SLEEP.format(3))
    answer = condor("condor_submit", "sleep.sub")
    assert answer.status == 0 and answer.err == ""
    found = re.fullmatch(r"Submitting job\(s\)\.\.\.\n3 job\(s\) submitted to cluster (\d+)\.\n", answer.out)
    assert found, answer.out
    assert (
        condor("condor_submit", "-terse", "sleep.sub").out
        == f"{int(found[1]) + 1}.0 - {int(found[1]) + 1}.2\n"
    )
    assert condor("condor_submit", stdin=SLEEP.format(1)).out.endswith("1 job(s) submitted to cluster 3.\n")
    verbose = condor("condor_submit", "-", stdin=SLEEP.format(1)).out
    assert verbose.startswith("\n** Proc 4.0:\n") and '\nOwner = "alice"\n' in verbose


@pytest.mark.parametrize("words", [(), ("-allusers",), ("-nobatch",)])
def test_totals_of_one_answer_agree(
    condor: Callable[..., Answer],
    session: Session,
    slots: DirectQueue,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    perform = session.perform

    def submitted_meanwhile(name: str, /, **arguments: Any) -> Any:
        answer = perform(name, **arguments)
        if name == "totals":
            slots.submit()
        return answer

    slots.submit()
    monkeypatch.setattr(session, "perform", submitted_meanwhile)
    totals = re.findall(r"^Total for .*: (\d+) jobs;", condor("condor_q", *words).out, re.MULTILINE)
    assert len(totals) >= 2 and len(set(totals)) == 1


def test_words_of_submit_come_before_the_file_and_appended_lines_before_queue(
    condor: Callable[..., Answer],
) -> None:
    text = "executable = $(what)\npriority = 1\nqueue\n"
    condor("condor_submit", "what=/bin/true", "-append", "priority = 7", "-batch-name", 'a "b"', stdin=text)
    assert (
        condor("condor_q", "1", "-af:V", "Cmd", "JobPrio", "JobBatchName").out
        == '"/bin/true" 7 "a \\"b\\""\n'
    )
    text = "executable = /bin/sleep\n"
    condor("condor_submit", "-queue", "2", "arguments", "in", "(a,b)", stdin=text)
    assert condor("condor_q", "2", "-af", "ProcId", "Args").out == "0 a\n1 a\n2 b\n3 b\n"


@pytest.mark.parametrize(
    ("words", "text", "said"),
    [
        (
            ["nosuch.sub"],
            "",
            "\nERROR: Failed to open command file (nosuch.sub) (No such file or directory)\n",
        ),
        (
            ["-queue", "2"],
            "executable = /bin/true\nqueue\n",
            "\nERROR: on Line 2 of <stdin>: -queue argument conflicts with queue statement in submit file\n",
        ),
        (["-maxjobs", "1"], SLEEP.format(2), "\nERROR: Number of submitted jobs would exceed -maxjobs (1)\n"),
    ],
)
def test_what_submit_refuses_leaves_nothing_in_the_queue(
    condor: Callable[..., Answer], words: list[str], text: str, said: str
) -> None:
    answer = condor("condor_submit", *words, stdin=text)
    assert answer.status == 1 and answer.err == said
    assert condor("condor_q", "-allusers", "-af", "ClusterId").out == ""


@pytest.mark.parametrize("more", ["", "arguments @=end\n1\n@end\n"])
def test_one_try_of_a_node_is_submitted_once_whatever_its_description(
    session: Session, tmp_path: Path, more: str
) -> None:
    """As when DAGMan continues after a crash."""

    def submit(retry: int) -> str:
        out, err = io.BytesIO(), io.BytesIO()
        words = ("condor_submit", "-terse", "JOB=A", f"RETRY={retry}")
        invocation = Invocation(
            words,
            io.BytesIO(f"executable = /bin/sleep\n{more}queue\n".encode()),
            out,
            err,
            lambda: session,
            environment={"PATH": "", dagrun.VARIABLE: "812"},
            directory=tmp_path,
            user="alice",
        )
        assert commands.run(invocation) == 0, err.getvalue()
        return out.getvalue().decode()

    first = submit(0)
    assert submit(0) == first != submit(1)


def test_a_description_without_a_queue_statement_is_one_job(
    condor: Callable[..., Answer], tmp_path: Path
) -> None:
    text = "executable = /bin/true\n"
    (tmp_path / "one.sub").write_text(text)
    for words, stdin in ((["one.sub"], ""), (["-a", "priority = 3"], text), (["-a", "queue 2"], text)):
        assert condor("condor_submit", "-terse", *words, stdin=stdin).status == 0
    said = condor("condor_q", "-af", "ClusterId", "ProcId", "JobPrio").out
    assert said == "1 0 0\n2 0 3\n3 0 0\n3 1 0\n"


def test_a_dry_run_writes_ads_and_submits_nothing(condor: Callable[..., Answer], tmp_path: Path) -> None:
    answer = condor("condor_submit", "-dry-run", "ads", stdin=SLEEP.format(2))
    assert answer.out == "Dry-Run job(s)..\n2 job(s) dry-run to cluster 1.\n" and answer.status == 0
    first, second = (tmp_path / "ads").read_text().strip("\n").split("\n\n")
    assert 'Cmd="/bin/sleep"' in first.splitlines()
    assert set(second.splitlines()) == {'Args="1"', "ProcId=1", "JobStatus=1"}
    assert condor("condor_q", "-allusers", "-totals", "-af", "Jobs").out.strip() == "0"


def test_q_is_read_as_nextflow_parsl_and_law_read_it(
    condor: Callable[..., Answer], slots: DirectQueue
) -> None:
    condor("condor_submit", stdin=SLEEP.format(2))
    condor("condor_hold", "1.1", "-reason", "because")
    lines = condor("condor_q", "-nobatch").out.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(" ID "))
    states = {}
    for line in lines[begin + 1 :]:
        if not line.strip():
            break
        columns = line.split()
        states[columns[0]] = columns[5]
    assert states == {"1.0": "I", "1.1": "H"}
    assert condor("condor_q", "1.0", "1.1", "-af:jr", "JobStatus").out == "1.0 1\n1.1 5\n"
    block = condor("condor_q", "1.1", "-af:lng", "ClusterId", "HoldReason", "nosuch").out
    assert block == "\nClusterId = 1\nHoldReason = because (by user alice)\nnosuch = undefined\n"
    assert re.search(
        r"Total for query: 2 jobs; 0 completed, 0 removed, 1 idle, 0 running, 1 held", "\n".join(lines)
    )


def test_q_shows_ones_own_jobs_unless_asked_otherwise(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(1))
    condor("condor_submit", stdin=SLEEP.format(2), user="bob")
    assert condor("condor_q", "-af", "Owner").out == "alice\n"
    assert condor("condor_q", "-allusers", "-af", "Owner").out == "alice\nbob\nbob\n"
    assert condor("condor_q", "bob", "-af", "ProcId").out == "0\n1\n"
    assert condor("condor_q", "-submitter", "bob", "-af", "ProcId").out == "0\n1\n"
    assert condor("condor_q", "2.1", "-af", "Owner").out == "bob\n"
    assert condor("condor_q", "-af", "Owner", user="root").out == "alice\nbob\nbob\n"
    total = condor("condor_q", "-totals").out.splitlines()
    assert [line.strip() for line in total if line.startswith("Total")] == [
        "Total for query: 1 jobs; 0 completed, 0 removed, 1 idle, 0 running, 0 held, 0 suspended",
        "Total for alice@" + total[-3].partition("@")[2].strip(),
        "Total for all users: 3 jobs; 0 completed, 0 removed, 3 idle, 0 running, 0 held, 0 suspended",
    ]


def test_actions_say_of_each_job_what_happened(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(4))
    assert condor("condor_hold", "1.0") == Answer(0, "Job 1.0 held\n", "")
    assert condor("condor_hold", "1.0") == Answer(1, "", "\nJob 1.0 already held\n")
    assert condor("condor_release", "1.0", "1.1") == Answer(
        0, "Job 1.0 released\n", "Job 1.1 not held to be released\n"
    )
    assert condor("condor_vacate_job", "1.1") == Answer(1, "", "\nJob 1.1 not running to be vacated\n")
    assert condor("condor_rm", "1.3", "9.9") == Answer(
        0, "Job 1.3 marked for removal\n", "Job 9.9 not found\n"
    )
    assert condor("condor_rm", "9.9") == Answer(1, "", "\nJob 9.9 not found\n")
    assert condor("condor_hold", "1") == Answer(0, "All jobs in cluster 1 have been held\n", "")
    assert condor("condor_release", "-const", "ClusterId==1 && ProcId==0") == Answer(
        0, "All jobs matching constraint (ClusterId==1 && ProcId==0) have been released\n", ""
    )
    assert condor("condor_rm", "-constraint", "ClusterId==99") == Answer(
        1, "", "\nCouldn't find/remove all jobs matching constraint (ClusterId==99)\n"
    )
    assert condor("condor_rm", "77") == Answer(1, "", "\nCouldn't find/remove all jobs in cluster 77\n")
    assert condor("condor_rm", "bob") == Answer(1, "", '\nCouldn\'t find/remove all jobs of user "bob"\n')
    assert condor("condor_rm", "alice") == Answer(
        0, 'All jobs of user "alice" have been marked for removal\n', ""
    )


def test_held_narrows_whatever_else_selects_jobs(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(4))
    condor("condor_hold", "1.1", "1.3")
    assert condor("condor_rm", "-held", "1.0", "1.1") == Answer(
        0,
        "All held jobs matching constraint ((ClusterId == 1 && ProcId == 0) ||"
        " (ClusterId == 1 && ProcId == 1)) have been marked for removal\n",
        "",
    )
    assert condor("condor_q", "-af", "ProcId").out == "0\n2\n3\n"
    assert condor("condor_rm", "1.0", "-held") == Answer(
        1, "", "\nCouldn't find/remove all held jobs matching constraint ((ClusterId == 1 && ProcId == 0))\n"
    )
    assert condor("condor_release", "-held", "-constraint", "ProcId == 0 || true").status == 0
    assert condor("condor_q", "-af", "ProcId", "JobStatus").out == "0 1\n2 1\n3 1\n"


@pytest.mark.parametrize(
    ("command", "words"), [("condor_suspend", "suspended"), ("condor_continue", "continued")]
)
def test_a_job_that_waits_is_not_suspended(condor: Callable[..., Answer], command: str, words: str) -> None:
    condor("condor_submit", stdin=SLEEP.format(1))
    assert condor(command, "1.0") == Answer(1, "", f"\nJob 1.0 not running to be {words}\n")


@pytest.mark.parametrize("command", sorted(commands.COMMANDS))
def test_an_unknown_option_is_an_error_on_stderr(condor: Callable[..., Answer], command: str) -> None:
    if command == "condor_config_val":
        pytest.skip("HTCondor's own, where it is installed")
    answer = condor(command, "-nosuchoption")
    assert answer.status == 1 and answer.err


def test_bad_words_are_answered_in_htcondors_words(condor: Callable[..., Answer]) -> None:
    said = {
        ("condor_rm",): "You did not specify any jobs\n",
        ("condor_rm", "-name"): "condor_rm: -name requires another argument\n",
        ("condor_q", "-constraint", "x =="): '\n-- Parse error in constraint expression "x =="\n',
        ("condor_q", "-limit", "x"): "Error: Unable to convert (x) to a number for -limit.\n",
        ("condor_q", "-jobads", "/nosuch"): "Can't open file of ClassAds: /nosuch\n",
        ("condor_history", "-constraint", "x =="): "Error:  could not parse constraint ( (x ==) )\n",
        ("condor_wait", "/nosuch"): "Couldn't open /nosuch: No such file or directory\n",
        ("condor_tail",): "Job ID not specified.\n",
        ("condor_tail", "9.0"): "No such job: 9.0\n",
        ("condor_prio", "-p", "5", "9.0"): "Couldn't retrieve current priority for 9.0.\n",
        ("condor_config_val", "NOSUCH"): "Not defined: NOSUCH\n",
    }
    for words, text in said.items():
        answer = condor(*words)
        assert answer.err.startswith(text), words
        assert answer.status == (0 if words[0] == "condor_prio" else 1), words


#: a line of each command that asks the queue
ASKING = {
    "condor_q": ["1.0"],
    "condor_history": [],
    "condor_submit": [],
    "condor_status": [],
    "condor_userprio": [],
    "condor_rm": ["1.0"],
    "condor_hold": ["-all"],
    "condor_release": ["-constraint", "true"],
    "condor_vacate_job": ["1"],
    "condor_prio": ["+1", "1"],
    "condor_qedit": ["1.0", "A", "1"],
    "condor_tail": ["1.0"],
    "condor_transfer_data": ["1.0"],
}
#: commands that ask no queue: they have tests of their own, or are refused
OTHERS = {
    "condor_wait", "condor_version", "condor_config_val", "condor_submit_dag",
    "condor_suspend", "condor_continue", "condor_ssh_to_job",
}  # fmt: skip


def test_each_command_asks_the_queue_or_does_not() -> None:
    assert set(commands.COMMANDS) == {*ASKING, *OTHERS}


@pytest.mark.parametrize("command", ASKING)
def test_without_a_database_each_command_fails_in_one_line(tmp_path: Path, utc: None, command: str) -> None:
    out, err = io.BytesIO(), io.BytesIO()
    run = Invocation(
        [command, *ASKING[command]],
        io.BytesIO(SLEEP.format(1).encode()),
        out,
        err,
        lambda: Session(f"host={tmp_path} port=1"),
        environment={},
        directory=tmp_path,
        user="alice",
    )
    assert commands.run(run) == 1
    # HTCondor's own words, and the reason
    assert 1 <= len(err.getvalue().decode().strip().splitlines()) <= 3, err.getvalue()
    assert b"Traceback" not in err.getvalue()


def test_qedit_and_prio_change_jobs(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(2))
    done = Answer(0, 'Set attribute "Foo" for 1 matching jobs.\n', "")
    assert condor("condor_qedit", "1.0", "Foo", "5") == done
    assert condor("condor_qedit", "1", "Foo=6", "Bar", '"x"').out == (
        'Set attribute "Bar" for 2 matching jobs.\nSet attribute "Foo" for 2 matching jobs.\n'
    )
    refused = (
        'Failed to set attribute "Foo" for job 1.9.\nQueue transaction failed.  No attributes were set.\n'
    )
    assert condor("condor_qedit", "1.0", "1.9", "Foo", "7") == Answer(1, "", refused)
    assert condor("condor_q", "1", "-af", "Foo", "Bar").out == "6 x\n6 x\n"
    assert condor("condor_qedit", "1.0", "Owner", '"bob"').err.startswith(
        'Update of immutable attribute "Owner"'
    )
    assert condor("condor_qedit", "9.0", "Foo", "5") == Answer(
        1,
        "",
        'Failed to set attribute "Foo" for job 9.0.\nQueue transaction failed.  No attributes were set.\n',
    )
    condor("condor_prio", "-p", "5", "1.0")
    condor("condor_prio", "+3", "1")
    condor("condor_prio", "-1", "alice")
    assert condor("condor_q", "1", "-af", "JobPrio").out == "7\n2\n"


def test_an_action_notes_its_reason_subcode_and_person(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(2))
    condor("condor_hold", "1.0")
    condor("condor_hold", "1.1", "-reason", "not now", "-subcode", "7")
    shown = condor("condor_q", "1", "-af", "HoldReason", "HoldReasonSubCode").out
    assert shown == "via condor_hold (by user alice) 0\nnot now (by user alice) 7\n"


def test_history_has_the_jobs_that_left(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(3))
    condor("condor_rm", "1.0")
    condor("condor_rm", "1.2")
    assert condor("condor_history", "-af:j", "JobStatus", "Owner").out == "1.2 3 alice\n1.0 3 alice\n"
    assert condor("condor_history", "-forwards", "-af", "ProcId").out == "0\n2\n"
    assert condor("condor_history", "-limit", "1", "-af", "ProcId").out == "2\n"
    assert condor("condor_history", "1.0", "-af", "ProcId").out == "0\n"
    assert condor("condor_history", "-since", "1.0", "-af", "ProcId").out == "2\n"
    # with other conditions, too, the list ends at that job
    assert condor("condor_history", "1.0", "-since", "1.2", "-af", "ProcId").out == ""
    assert condor("condor_history", "bob", "-af", "ProcId").out == ""


def test_wait_follows_the_file_of_an_event_log(condor: Callable[..., Answer], tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    submitted = "000 (007.000.000) 2026-11-22 01:00:00 Job submitted from host: <x>\n...\n"
    ended = "005 (007.000.000) 2026-11-22 01:00:09 Job terminated.\n\t(1) Normal termination\n...\n"
    log.write_text(submitted)
    assert condor("condor_wait", "-wait", "0", "job.log") == Answer(1, "Time expired.\n", "")
    log.write_text(submitted + ended)
    assert condor("condor_wait", "job.log") == Answer(0, "All jobs done.\n", "")
    assert (
        condor("condor_wait", "-status", "job.log", "7.0").out
        == "7.0.0 submitted\n7.0.0 completed\nAll jobs done.\n"
    )
    assert condor("condor_wait", "-num", "1", "job.log").out == "Specifed number of jobs (1) done.\n"


def test_tail_follows_what_a_job_writes_until_it_has_ended(
    condor: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fetchwork.following import liveoutput

    pieces = [
        liveoutput.Piece(0, "it does not run"),
        liveoutput.Piece(1, "out\n"),
        liveoutput.Piece(2, "err\n"),
    ]
    asked: list[tuple[int, int]] = []

    def follow(session: object, cluster: int, proc: int) -> Iterator[liveoutput.Piece]:
        asked.append((cluster, proc))
        yield from pieces

    monkeypatch.setattr(liveoutput, "follow_output", follow)
    assert condor("condor_tail", "-f", "1.0") == Answer(0, "out\n", "")
    assert condor("condor_tail", "-follow", "-stderr", "7").out == "out\nerr\n"
    assert asked == [(1, 0), (7, 0)]
    monkeypatch.undo()
    assert condor("condor_tail", "-follow", "9.0") == Answer(1, "", "No such job: 9.0\n")


def test_what_a_description_expects_in_vain_is_said_in_a_line(
    conninfo: str, tmp_path: Path, utc: None
) -> None:
    import io

    text = "notification = Always\nlog = a.log\nshould_transfer_files = YES\n" + SLEEP.format(1)

    def submit(text: str, columns: int) -> str:
        out, err = io.BytesIO(), io.BytesIO()
        words = ["condor_submit"]
        stdin = io.BytesIO(text.encode())
        with Session(conninfo) as session:
            arguments = {"environment": {}, "directory": tmp_path, "user": "alice", "columns": columns}
            run = Invocation(words, stdin, out, err, lambda: session, **arguments)  # type: ignore[arg-type]
            assert commands.run(run) == 0, err.getvalue()
        return err.getvalue().decode()

    (undone,) = submit(text, -1).splitlines()
    assert undone.startswith("WARNING: no access point serves this host: ")
    assert "userlog --follow" in undone and "condor_transfer_data" in undone
    mail, again = submit(text, 80).splitlines()
    assert "nothing is mailed" in mail and again == undone
    assert submit("notification = never\n" + SLEEP.format(1), 80) == ""
    assert unmet(text, served=True, on_terminal=False) == []


def test_wait_reads_a_log_in_xml(condor: Callable[..., Answer], tmp_path: Path) -> None:
    from fetchwork.queue.events.jobevents import JobEvent

    events = [JobEvent(f"1\t{number}\t{number}\t7\t0\t-1\t1795225768\t{{}}") for number in (0, 5)]
    log = tmp_path / "job.log"
    log.write_text(events[0].entry(xml=True))
    assert condor("condor_wait", "-wait", "0", "job.log").out == "Time expired.\n"
    log.write_text("".join(event.entry(xml=True) for event in events))
    assert condor("condor_wait", "-status", "job.log", "7").out == (
        "7.0.0 submitted\n7.0.0 completed\nAll jobs done.\n"
    )
    assert condor("condor_wait", "-echo", "job.log").out == log.read_text() + "All jobs done.\n"
    host = '1\t1\t1\t7\t0\t-1\t1795225768\t{"ExecuteHost": "<10.0.0.1:9618?addrs=10.0.0.1-9618&noUDP>"}'
    log.write_text(events[0].entry(xml=True) + JobEvent(host).entry(xml=True))
    assert "executing on host <10.0.0.1:9618?addrs=10.0.0.1-9618&noUDP>\n" in (
        condor("condor_wait", "-status", "-wait", "0", "job.log").out
    )


def test_status_shows_the_slots_that_fetch(condor: Callable[..., Answer], slots: DirectQueue) -> None:
    condor("condor_submit", stdin=SLEEP.format(1))
    slots.started("slot1@h1")
    slots.connection.execute(
        "SELECT fetchwork.report_slots(1, %s)",
        [
            '[{"name": "slot1@h1", "state": "Claimed", "activity": "Busy", "cpus": 1,'
            ' "memory_mib": 512, "fetched_at": 1795225768, "last_answer": "offered",'
            ' "queues": ["default"], "ad": {"OpSys": "LINUX", "Arch": "X86_64"}}]'
        ],
    )
    assert condor("condor_status", "-af", "Machine").out == "h1\n"
    assert condor("condor_status", "h1", "-af", "Name").out == "slot1@h1\n"
    lines = condor("condor_status").out.splitlines()
    assert lines[0].split()[:5] == ["Name", "OpSys", "Arch", "State", "Activity"]
    assert lines[2].startswith("slot1@h1 ") and lines[-1].split()[:2] == ["Total", "1"]
    assert condor("condor_status", "nosuch").out == ""
    # these options ask the database
    assert condor("condor_status", "-compact").out.splitlines()[2].startswith("h1 ")
    assert condor("condor_status", "-compact", "-claimed", "-af", "Name").out == "slot1@h1\n"
    for options in (["-avail"], ["-compact", "-avail"], ["-gpus"], ["-sort", "NoSuch"]):
        answer = condor("condor_status", *options)
        assert (answer.status, answer.out, answer.err) == (0, "", ""), options
    answer = condor("condor_status", "-sort", "((")
    assert (answer.status, answer.err) == (1, "Error:  Parse error of: ((\n")
    assert condor("condor_status", "-schedd", "-af", "TotalRunningJobs").out == "1\n"
    answer = condor("condor_status", "-schedd", "-aaf", "TotalRunningJobs")
    assert (answer.status, answer.err) == (1, "Error: -aaf is not supported with -schedd: use -af\n")
    for width in ("-wide:80", "-wide:120"):
        answer = condor("condor_status", width)
        assert (answer.status, answer.err) == (0, "") and "slot1@h1" in answer.out


def test_columns_are_added_to_a_format_that_has_none(run: Callable[..., Answer], tmp_path: Path) -> None:
    (tmp_path / "none.format").write_text("SELECT\n")
    (tmp_path / "ads").write_text('Name = "slot1@h1"\nMachine = "h1"\n')
    answer = run(
        "condor_status", "-ads", "ads", "-print-format", "none.format", "-aaf", "Name", directory=tmp_path
    )  # fmt: skip
    assert answer == Answer(0, "Name    \nslot1@h1\n", "")


def test_version_has_three_numbers_and_names_fetchwork(condor: Callable[..., Answer]) -> None:
    out = condor("condor_version").out
    assert re.match(r"^\$CondorVersion: (\d+)\.(\d+)\.(\d+) .+$", out.splitlines()[0]) and "fetchwork" in out


@pytest.mark.slow
def test_each_command_is_an_executable_of_its_name(
    conninfo: str, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    folder = directory.made()
    assert {path.name for path in folder.iterdir()} >= {*commands.COMMANDS, commands.COMMAND_LINE}
    assert directory.made() == folder
    environment = {"FETCHWORK_DSN": conninfo, "PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line], env=environment, capture_output=True, text=True, cwd=tmp_path
        )

    put(session.database, SLEEP.format(200), owner="alice")
    assert run("condor_q 1.7 -af:j JobStatus").stdout == "1.7 1\n"
    assert run("fetchwork q 1.7 -af:j JobStatus").stdout == "1.7 1\n"
    assert run("fetchwork q -nosuchoption").returncode == 2
    assert run("condor_rm 1.7").stdout == "Job 1.7 marked for removal\n"
    if os.geteuid() == 0:
        # no job runs as root, so root submits none, as in HTCondor
        refused = run("echo queue | condor_submit executable=/bin/true")
        assert refused.returncode == 1 and refused.stderr.startswith("\nERROR: ")
    # a reader that closes the pipe early is no error, and causes no message
    closed = run("{ condor_q -allusers -long; echo $? >&2; } | head -1")
    assert closed.stderr == "0\n" and closed.stdout.count("\n") == 1
    assert run("condor_q nosuchuser -af ClusterId").stdout == ""
    shutil.rmtree(folder)


def test_analysis_says_why_a_job_does_not_run(condor: Callable[..., Answer]) -> None:
    condor("condor_submit", stdin=SLEEP.format(1))
    condor("condor_hold", "1.0", "-reason", "because")
    out = condor("condor_q", "-better-analyze", "1.0").out
    assert (
        out.startswith("-- Job 1.0 of alice, queue default\n")
        and "It is held: because (by user alice)." in out
    )
    # without a job: one idle job of each autocluster
    assert condor("condor_q", "-better-analyze").out == "No job is idle.\n"
    condor("condor_submit", stdin=SLEEP.format(3))
    out = condor("condor_q", "-better-analyze").out
    assert out.startswith("-- Job 2.0 of alice") and "and 2 idle jobs like it\n" in out
    assert out.count("-- Job ") == 1


def test_a_job_that_leave_in_queue_keeps_is_shown_as_completed_until_it_is_removed(
    condor: Callable[..., Answer], slots: DirectQueue
) -> None:
    condor("condor_submit", stdin="leave_in_queue = JobStatus == 4\n" + SLEEP.format(2))
    slots.finish(slots.started("slot1@h1"), ExitCode=3)
    assert condor("condor_q", "1.0", "-af", "JobStatus", "ExitCode").out == "4 3\n"
    out = condor("condor_q", "-nobatch").out
    assert out.splitlines()[4].split()[5] == "C"
    totals = "2 jobs; 1 completed, 0 removed, 1 idle, 0 running, 0 held, 0 suspended"
    assert out.endswith(
        f"\nTotal for query: {totals} \nTotal for alice@kept: {totals} \nTotal for all users: {totals}\n\n"
    )
    assert condor("condor_q").out.splitlines()[4].split()[5:9] == ["_", "_", "1", "2"]
    assert condor("condor_history", "-af", "ProcId").out == ""
    assert condor("condor_hold", "1.0") == Answer(1, "", "\nInvalid result for job 1.0\n")
    assert condor("condor_rm", "1.0").out == "Job 1.0 marked for removal\n"
    assert condor("condor_q", "-af", "ProcId").out == "1\n"
    assert condor("condor_history", "-af", "JobStatus", "ExitCode").out == "4 3\n"


@pytest.mark.parametrize("option", ["-healthy", "-merge", "-target", "-diagnose"])
def test_a_table_of_slots_that_is_not_printed_is_refused_by_name(
    condor: Callable[..., Answer], option: str
) -> None:
    answer = condor("condor_status", option)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.startswith(f"Error: {option} is not supported: ")
