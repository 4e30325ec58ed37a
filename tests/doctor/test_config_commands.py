"""``fetchwork config check`` and ``install`` on a host, with simulated answers of HTCondor."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.cli import run
from fetchwork.deploy import CONDOR_FILE
from fetchwork.deploy.condorconfig import parse_settings
from tests.doctor.conftest import TestHost

Command = Callable[..., str]


@pytest.fixture
def on_path(host: TestHost, monkeypatch: pytest.MonkeyPatch) -> TestHost:
    """The host with its condor_config_val on PATH and its fetchwork in its environment."""
    program = host.directory / "venv/bin/fetchwork"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    host.file.chmod(0o600)
    host.diagnose()  # writes the settings for condor_config_val
    monkeypatch.setenv("PATH", str(host.directory), prepend=os.pathsep)
    return host


@pytest.fixture
def command(on_path: TestHost, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command on the host file, or on another one; returns what it prints and complains about."""

    def command(*words: str, status: int, file: Path = on_path.file) -> str:
        assert run(["config", *words, "-c", str(file)]) == status
        return "".join(capsys.readouterr())

    return command


def test_check_finds_nothing_on_a_host_where_nothing_is_wrong(on_path: TestHost, command: Command) -> None:
    assert command("check", status=0) == f"{on_path.file}: nothing wrong\n"


def test_check_finds_a_world_writable_hook(on_path: TestHost, command: Command) -> None:
    (on_path.hooks / "prepare_job").chmod(0o757)
    told = command("check", status=1)
    assert told.startswith(
        f"{on_path.file}:16:keyword.FETCHWORK.hooks: hook '{on_path.hooks}/prepare_job' is world-wri"
    )
    assert told.count("\n") == 2
    assert told.endswith(f"\nfetchwork: error: 1 thing is wrong with '{on_path.file}'\n")


@pytest.mark.parametrize(
    ("name", "policy", "word"),
    [
        ("PREEMPT", "NonCondorLoadAvg > 0.5", "NonCondorLoadAvg"),
        ("SLOT_TYPE_1_SUSPEND", "KeyboardIdle < 60", "KeyboardIdle"),
        ("START", "ClockMin < 480", "ClockMin"),
        ("CONTINUE", "time() > 1", "time"),
        ("SUSPEND", "TimeToLive < 5", None),
    ],
)
def test_check_finds_chains_whose_jobs_a_policy_may_treat_differently(
    on_path: TestHost, command: Command, name: str, policy: str, word: str | None
) -> None:
    text = on_path.file.read_text()
    (on_path.hooks / "runner").write_text("")
    (on_path.hooks / "runner").chmod(0o755)
    on_path.settings[name] = policy
    on_path.diagnose()
    assert "starter" not in command("check", status=0), "without chains any policy will do"
    on_path.file.write_text(text.replace("[keyword.FETCHWORK]\n", "[keyword.FETCHWORK]\nchain_s = 60\n"))
    # the fetches of busy slots differ with chains
    assert "FetchWorkDelay" in command("check", status=1)
    on_path.settings |= parse_settings(command("generate", status=0))
    on_path.settings[name] = policy
    on_path.diagnose()
    told = command("check", status=1 if word else 0)
    if word:
        problem = f"{name}: depends on {word}, so one starter must not run several jobs"
        assert f"{problem}; allowed: an expression without {word}, or chain_s = 0 for FETCHWORK\n" in told


def test_check_finds_chains_without_the_runner(on_path: TestHost, command: Command) -> None:
    text = on_path.file.read_text()
    on_path.file.write_text(text.replace("[keyword.FETCHWORK]\n", "[keyword.FETCHWORK]\nchain_s = 60\n"))
    told = command("check", status=1)
    assert f"keyword.FETCHWORK.chain_s: there are no chains without '{on_path.hooks}/runner'" in told


def test_slots_that_are_more_than_the_machine_has_are_refused(on_path: TestHost, command: Command) -> None:
    text = on_path.file.read_text().replace("cpus = 4\n", "", 1)
    on_path.file.write_text(text.replace("count = 4\n", "count = 99\n"))
    on_path.settings["NUM_CPUS"] = "8"
    on_path.diagnose()
    problem = "asks for 99 cpus, and HTCondor has 8 here (NUM_CPUS)"
    assert f"slots.type: {problem}; allowed: fewer or smaller slots" in command("check", status=1)
    assert f"slots.type {problem}: the startd would not start" in command("install", status=1)
    told = next(line for line in on_path.diagnose() if line.subject == "slots")
    assert told.text == f"slots.type {problem}"


def test_check_finds_a_missing_hook(on_path: TestHost, capsys: pytest.CaptureFixture[str]) -> None:
    (on_path.hooks / "job_exit").unlink()
    assert run(["config", "check", "--json", "-c", str(on_path.file)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["wrong"] == f"hook '{on_path.hooks}/job_exit': no such file or directory"
    assert finding["warning"] is False


def test_check_finds_a_password_that_everyone_can_read(on_path: TestHost, command: Command) -> None:
    on_path.file.chmod(0o644)
    assert "database.main.conninfo: holds a password in a file that everyone can read" in command(
        "check", status=1
    )


def test_check_warns_of_a_file_that_the_agent_does_not_read(on_path: TestHost, command: Command) -> None:
    copy = on_path.directory / "copy.toml"
    copy.write_text(on_path.file.read_text())
    copy.chmod(0o600)
    assert f"warning: the agent will read '{on_path.file}', not this file" in command(
        "check", file=copy, status=0
    )


def test_install_writes_hooks_and_configuration_where_htcondor_reads_last(
    on_path: TestHost, command: Command
) -> None:
    first, last = on_path.directory / "share.d", on_path.directory / "config.d"
    first.mkdir()
    last.mkdir()
    on_path.settings["LOCAL_CONFIG_DIR"] = f"{first},{last}"
    on_path.diagnose()
    (on_path.hooks / "job_exit").unlink()
    told = command("install", status=0)
    assert (on_path.hooks / "job_exit").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in last.iterdir()] == [CONDOR_FILE]
    assert list(first.iterdir()) == []
    assert "for HTCondor 23.9.6." in (last / CONDOR_FILE).read_text()
    assert "wrote 6 hooks of FETCHWORK into" in told


def test_install_says_where_if_htcondor_does_not(on_path: TestHost, command: Command) -> None:
    on_path.settings["LOCAL_CONFIG_DIR"] = "/nowhere"
    on_path.diagnose()
    assert "say where with --output DIR" in command("install", status=1)


def test_install_refuses_a_file_that_the_agent_would_not_read(on_path: TestHost, command: Command) -> None:
    copy = on_path.directory / "copy.toml"
    copy.write_text(on_path.file.read_text())
    told = command("install", file=copy, status=1)
    assert f"the agent will read '{on_path.file}', not '{copy}'" in told
