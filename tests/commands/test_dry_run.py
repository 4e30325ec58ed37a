"""condor_submit -dry-run: the ads are HTCondor's own, except for the differences listed here."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.errors import HTCondorUnavailable
from tests.commands.oracle import Answer, answers
from tests.conftest import NOT_TESTED

DESCRIPTIONS = {
    "plain": "queue",
    "items": "arguments = $(a) $(b)\noutput = o.$(Process)\nqueue a,b from (\n1 2\n3 4\n)",
    "policy": "max_retries = 2\nperiodic_hold = NumJobStarts > 3\non_exit_hold = ExitCode == 3\nqueue",
    "resources": "request_cpus = 2\nrequest_memory = 1GB\nrequest_disk = 2GB\nrequest_gpus = 1\nqueue",
    "environment": "environment = \"A=1 B='x y'\"\nqueue",
    "attributes": '+Mine = "x"\nMY.Other = 1 + 1\nconcurrency_limits = a,b\nbatch_name = nn\nqueue',
    "group": "accounting_group = g\naccounting_group_user = u\nqueue",
    "files": "should_transfer_files = YES\ntransfer_input_files = plain.sub\nqueue",
    "held": "hold = true\nqueue",
    "signals": "kill_sig = SIGUSR1\njob_max_vacate_time = 30\nallowed_execute_duration = 60\nqueue",
    "kept": "leave_in_queue = JobStatus == 4\nlog = a.log\nlog_xml = true\nstream_output = true\nqueue 3",
}
#: with lines that have no use, and some that have one
UNUSED = {
    "misspelt": "requrements =   a   b  \nFoo = 1\nbar=$(Foo)\nx.y = 3\n+Mine = 1\nqueue",
    "again": "baz = 1\nbaz = 2\narguments = $(used)\nused = $(deeper:1)\ndeeper = 1\nqueue 2",
    "lines": "unread @=end\n a\n  b\n@end\nlong = a \\\n  b\nqueue",
    "of a condition": "if false\nzz = 1\nendif\nrequest_foo = 1\nShouldTransferFiles = NO\nRETRY = 1\nqueue",
    "of the items": "arguments = $(Item)\nn = 2\nm = 3\nqueue $(n) in (a b)",
}
#: attributes of HTCondor's dry run that ours lacks: the queue knows them
NOT_OURS = {"QDate", "EnteredCurrentStatus", "JobSubmitFile", "SubmitVersion"}
#: differences, and their reasons
DIFFERENT = {
    # of the machine and the account
    "Iwd", "UserLog", "Owner", "FileSystemDomain", "CondorVersion", "CondorPlatform",
    # size of /bin/true there
    "DiskUsage", "ImageSize", "ExecutableSize", "TransferInputSizeMB",
    # defaults of HTCondor 25 for jobs that don't set them; ours are those of the bindings, 24.12
    "RequestDisk", "RequestMemory", "Requirements",
    # set by the bindings
    "JobSubmitMethod",
}  # fmt: skip


def ads(text: str) -> list[dict[str, str]]:
    """The ads of a dry run."""
    parts = text.removeprefix("Dry-Run job(s)\n").rpartition(".\n")[0].split("\n.\n")
    return [dict(line.split("=", 1) for line in part.splitlines() if "=" in line) for part in parts if part]


@pytest.mark.slow
def test_the_ads_are_htcondors(
    run: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of sid: only root can enter its pool root")
    for name, text in DESCRIPTIONS.items():
        (tmp_path / f"{name}.sub").write_text(f"executable = /bin/true\n{text}\n")
    monkeypatch.chdir(tmp_path)
    cases = [["condor_submit", "-dry-run", "-", f"{name}.sub"] for name in DESCRIPTIONS]
    try:
        theirs = answers("sid", tmp_path, cases)
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of sid: {reason}")
    for words, expected in zip(cases, theirs, strict=True):
        answer = run(*words, directory=tmp_path)
        assert (answer.status, answer.err) == (expected.status, expected.err) == (0, ""), words
        assert answer.out.splitlines()[-1] == expected.out.splitlines()[-1]
        ours, others = ads(answer.out), ads(expected.out)
        assert len(ours) == len(others), words
        for mine, other in zip(ours, others, strict=True):
            assert other.keys() - mine.keys() <= NOT_OURS, words
            assert mine.keys() <= other.keys(), words
            assert {name for name in mine if mine[name] != other[name]} <= DIFFERENT, words


@pytest.mark.slow
def test_lines_that_nothing_uses_are_warned_of_as_htcondor_does(
    run: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_TESTED} of sid: only root can enter its pool root")
    for name, text in UNUSED.items():
        (tmp_path / f"{name}.sub").write_text(f"executable = /bin/true\n{text}\n")
    monkeypatch.chdir(tmp_path)
    cases = [["condor_submit", "-dry-run", "out", f"{name}.sub"] for name in UNUSED]
    cases += [
        [*case[:3], *more, case[3]] for case in cases[:1] for more in (["-unused"], ["-a", "c = 1"], ["d=1"])
    ]
    try:
        theirs = answers("sid", tmp_path, cases)
    except HTCondorUnavailable as reason:
        pytest.skip(f"{NOT_TESTED} of sid: {reason}")
    for words, expected in zip(cases, theirs, strict=True):
        assert run(*words, directory=tmp_path) == expected, words
    assert sum("WARNING" in one.err for one in theirs) >= 6
