"""Whether a job runs in a sandbox on a host, the hosts that may get it, and its ad there."""

import pytest

from fetchwork.sandbox.offered import at_remote_iwd, has_sandbox, may_run, offered

AD = {
    "Cmd": "/home/alice/job.sh",
    "Iwd": "/home/alice",
    "In": "data/in.txt",
    "Out": "/home/alice/out",
    "Err": "err",
    "TransferInput": "a,b",
    "TransferOutputRemaps": "x=y",
    "Arguments": "1 2",
}


def test_the_offered_ad_has_nothing_that_the_starter_would_look_for_on_the_host() -> None:
    assert offered(AD) == {
        "Cmd": "condor_exec.exe",
        "In": "in.txt",
        "Out": "_condor_stdout",
        "Err": "_condor_stderr",
        "Arguments": "1 2",
        "FetchWorkSandbox": True,
    }


def test_a_job_with_a_remote_initialdir_runs_there_and_its_paths_stay_where_they_are() -> None:
    assert at_remote_iwd(AD) == AD
    ad = at_remote_iwd({**AD, "Cmd": "bin/x", "RemoteIwd": "/scratch"})
    paths = (ad["Iwd"], ad["Cmd"], ad["In"], ad["Out"], ad["Err"])
    home = "/home/alice"
    assert paths == ("/scratch", f"{home}/bin/x", f"{home}/data/in.txt", f"{home}/out", f"{home}/err")


def test_what_does_not_travel_stays_as_it_is() -> None:
    ad = offered(
        {**AD, "TransferExecutable": False, "TransferIn": False, "TransferOut": False, "Err": "/dev/null"}
    )
    assert (ad["Cmd"], ad["In"], ad["Out"], ad["Err"]) == (
        "/home/alice/job.sh",
        "data/in.txt",
        "/home/alice/out",
        "/dev/null",
    )


def test_output_and_errors_in_one_file_stay_in_one() -> None:
    ad = offered({**AD, "Err": AD["Out"]})
    assert ad["Out"] == ad["Err"] == "_condor_stdout"


def test_stdin_by_a_url_has_the_url_s_name() -> None:
    assert offered({**AD, "In": "http://host/data?x=1"})["In"] == "data"


@pytest.mark.parametrize(
    ("files", "shared", "sandbox"),
    [
        ("sandbox", ["/"], True),
        ("stored", ["/"], False),
        ("stored", ["/home"], False),
        ("stored", ["/data"], True),
        ("stored", ["/home/ali"], True),
        ("stored", [], True),
        ("shared:/home", ["/home"], False),
        (None, [], False),
    ],
)
def test_a_job_has_a_sandbox_where_its_files_are_not(
    files: str | None, shared: list[str], sandbox: bool
) -> None:
    assert has_sandbox({**AD, "FetchWorkFiles": files}, shared) is sandbox


@pytest.mark.parametrize(
    ("files", "shared", "may"),
    [
        (None, [], True),
        ("sandbox", [], True),
        ("stored", [], True),
        ("shared:/home", ["/home"], True),
        ("shared:/home,/data", ["/home"], False),
        ("shared:/home", [], False),
        ("shared:/", ["/"], True),
        ("shared:/", ["/home"], False),
    ],
)
def test_where_a_job_may_be_offered(files: str | None, shared: list[str], may: bool) -> None:
    assert may_run(files, shared) is may
