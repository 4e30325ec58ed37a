"""The doctor names the cause of a host's fault, and the remedy."""

import grp
import json
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from fetchwork import config
from fetchwork.cli import run
from fetchwork.deploy import UNIT_FILE, compiled, render
from fetchwork.deploy import hooks as hookinstall
from fetchwork.deploy.check import check_leftovers
from fetchwork.doctor import Line, agent, daemons, database, files, hooks
from fetchwork.process import Process
from tests.conftest import WITHOUT_COMPILER
from tests.doctor.conftest import TestHost, serve
from tests.support.buckets import ACCESS_KEY_ID, SECRET, serve_bucket
from tests.support.joining import invite, run_host
from tests.support.waiting import until

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user jobs run as that user")


def only(lines: list[Line]) -> Line:
    assert len(lines) == 1, lines
    assert lines[0].remedy
    return lines[0]


def test_nothing_fails_on_a_host_where_nothing_is_wrong(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the stand-in for HTCondor has no plugins
    monkeypatch.setattr(files, "find", lambda: {"http": None})
    lines = host.diagnose()
    assert [line for line in lines if line.verdict == "FAIL"] == []
    assert [line.subject for line in lines] == [
        "host file",
        "HTCondor",
        "keywords",
        "slots",
        "settings",
        "daemons",
        "hooks",
        "spool",
        "agent",
        "signals",
        "memory",
        "files",
        "database",
        "server",
        "schema",
        "clock",
        "role",
        "owners",
        "fetches",
    ]
    # no slot has fetched yet
    assert [line.subject for line in lines if line.verdict == "warn"] == ["fetches"]


def test_agent_down(host: TestHost) -> None:
    host.stop_agent()
    line = host.fails(subject="agent", text="cannot connect to agent socket")
    assert line.remedy.startswith("condor_on -daemon FETCHWORK_AGENT; FetchworkAgentLog")


@pytest.mark.parametrize(
    ("rights", "accounts", "verdict", "text"),
    [
        ("root part", {0}, "ok", "the part of the agent that stays root"),
        ("own account", {os.geteuid()}, "ok", "the agent, which is the account of the jobs"),
        ("own account", {4711}, "FAIL", "nothing ends jobs that are removed: the agent is uid"),
    ],
)
def test_who_ends_jobs_that_are_removed(
    host: TestHost,
    monkeypatch: pytest.MonkeyPatch,
    rights: str,
    accounts: set[int],
    verdict: str,
    text: str,
) -> None:
    host.stop_agent()
    monkeypatch.setattr(daemons, "accounts", lambda: accounts)
    stop = serve(config.load(host.directory / "host.toml").socket, rights)
    try:
        (line,) = [line for line in host.diagnose() if line.subject == "signals"]
    finally:
        stop()
    assert line.verdict == verdict
    assert line.text.startswith(text)


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("", "fetched jobs have no cgroup's limit"),
        ("limit_memory = true", "HTCondor limits jobs by cgroups"),
        ("limit_memory = false", "no limits, by the host file"),
        ("fetched_only = true", "HTCondor limits jobs by cgroups"),
    ],
)
def test_what_limits_memory(host: TestHost, setting: str, text: str) -> None:
    host.file.write_text(f"{host.file.read_text()}\n[slots]\n{setting}\n")
    (line,) = [line for line in host.diagnose() if line.subject == "memory"]
    assert line.text.startswith(text)


@pytest.mark.parametrize(
    ("setting", "verdict", "text"),
    [
        ("", "warn", "HTCondor hides all GPUs from fetched jobs if jobs have cgroups"),
        ("hide_gpus = false", "ok", "jobs may open every GPU"),
        ("fetched_only = true", "ok", "jobs may open every GPU"),
    ],
)
def test_who_may_open_gpus(host: TestHost, setting: str, verdict: str, text: str) -> None:
    host.file.write_text(f"{host.file.read_text()}\n[slots]\n{setting}\n[[slots.type]]\ngpus = 1\n")
    (line,) = [line for line in host.diagnose() if line.subject == "GPUs"]
    assert line.verdict == verdict
    assert line.text.startswith(text)


def test_hooks_that_never_run_because_the_pilot_names_others(host: TestHost) -> None:
    host.settings["STARTER_JOB_HOOK_KEYWORD"] = "PILOT"
    line = host.fails(subject="settings", text="fetchwork's PREPARE_JOB and JOB_EXIT never run")
    assert "STARTER_JOB_HOOK_KEYWORD: is 'PILOT'" in line.text
    assert line.remedy.startswith("STARTER_DEFAULT_JOB_HOOK_KEYWORD = PILOT in its place")
    # our own keyword has our hooks, though not those that each ad names
    host.settings["STARTER_JOB_HOOK_KEYWORD"] = "FetchWork"
    host.fails(subject="settings", text="gives every job of this host the hooks of 'FetchWork'")
    host.settings["STARTER_JOB_HOOK_KEYWORD"] = ""
    host.settings["STARTER_DEFAULT_JOB_HOOK_KEYWORD"] = "PILOT"
    assert host.failures() == []


@pytest.mark.parametrize(
    ("script", "runs"),
    [
        ("/opt/pilot/prepare_job && {ours}", True),
        ("/opt/pilot/prepare_job", False),
        ("# {ours}", False),
        ("{ours}.py.old", False),
        (None, False),
    ],
    ids=["both", "the pilot's", "a comment", "another file", "no script"],
)
def test_a_prepare_job_of_the_site_has_to_call_ours(host: TestHost, script: str | None, runs: bool) -> None:
    both = host.directory / "prepare_both"
    ours = host.settings["FETCHWORK_HOOK_PREPARE_JOB"]
    host.settings["FETCHWORK_HOOK_PREPARE_JOB"] = str(both)
    if script is not None:
        both.write_text(f"#!/bin/sh\n{script.format(ours=ours)}\n")
    if runs:
        assert host.failures() == []
    else:
        host.fails(subject="settings", text=f"which does not call fetchwork's '{ours}'", remedy="calls both")


def test_agent_is_not_to_blame_where_no_master_runs(host: TestHost) -> None:
    host.stop_agent()
    host.daemons.clear()
    first, second = host.failures()
    assert first.subject == "daemons"
    assert first.text.startswith("no condor_master runs ")
    assert second.text == "does not run: condor_master, which starts it, does not"


def test_startd_that_does_not_run(host: TestHost) -> None:
    host.daemons.remove(daemons.STARTD)
    line = only(host.failures())
    assert line.text == "condor_master runs, but no condor_startd, so no slot fetches"
    assert "StartLog" in line.remedy


def test_daemons_of_other_configurations_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / daemons.MASTER
    program.symlink_to("/bin/sleep")

    def told(mine: str, theirs: str) -> bool:
        monkeypatch.setenv("CONDOR_CONFIG", mine)
        with subprocess.Popen([program, "60"], env={"CONDOR_CONFIG": theirs}) as daemon:
            try:
                until(lambda: (found := Process.find(daemon.pid)) and found.name == daemons.MASTER)
                return daemons.MASTER in daemons.running()
            finally:
                daemon.kill()

    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert told(first, first)
    assert not told(first, second)


def test_agent_that_hangs(host: TestHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agent, "TIMEOUT_S", 0.2)
    path = host.directory / "run/agent.sock"
    host.stop_agent()
    import socket

    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen()
        host.fails(text="does not answer within")


def test_database_down(host: TestHost) -> None:
    text = host.file.read_text()
    port = text.partition("port=")[2].split()[0].rstrip('"')
    host.file.write_text(text.replace(f"port={port}", "port=1"))
    host.fails(subject="database", text="main: database does not answer", remedy="[database.main] conninfo")


@pytest.mark.parametrize(
    ("words", "verdict", "text"),
    [
        ("host=db.example.org sslmode=require", "FAIL", "not verified (sslmode=require)"),
        ("host=127.0.0.1,db.example.org", "FAIL", "not verified (sslmode=prefer)"),
        ("host=localhost hostaddr=192.0.2.1", "FAIL", "crosses a network"),
        ("service=jobs", "FAIL", "crosses a network"),
        ("host=db.example.org sslmode=verify-ca", "ok", "the server is verified (sslmode=verify-ca)"),
        ("host=db.example.org sslmode=verify-full", "ok", "the server is verified"),
        ("host=/run/postgresql dbname=jobs", "ok", "stays on this machine"),
        ("dbname=jobs", "ok", "stays on this machine"),
        ("host=localhost,127.0.0.1,::1", "ok", "stays on this machine"),
    ],
)
def test_connection_that_is_not_verified(words: str, verdict: str, text: str) -> None:
    line = database.of_connection("main", words)
    assert line.verdict == verdict
    assert text in line.text


def test_password_in_a_host_file_that_others_can_read(host: TestHost) -> None:
    host.file.chmod(0o644)
    host.fails(subject="host file", text="everyone can read", remedy="chmod o-r")


@root_only
def test_host_that_joined(host: TestHost, conninfo: str) -> None:
    def role() -> Line:
        (line,) = [line for line in host.diagnose() if line.subject == "role"]
        return line

    def keys() -> Line:
        (line,) = [line for line in host.diagnose() if line.subject == "credentials"]
        return line

    there = ["--config", host.file, "--state", host.directory / "identity", "--user", "daemon"]
    invitation = invite(conninfo, "--queue", "default")
    assert "has the new connection" in run_host(conninfo, "join", invitation, *there)
    assert "password=" not in host.file.read_text()
    assert host.failures() == []
    assert role().text.startswith("main: joined as 'test.example.org', until ")
    (line,) = [line for line in host.diagnose() if line.subject == "fetches"]
    assert "has seen no slot" in line.text
    ad = {"Cmd": "/bin/true", "Owner": "nosuchperson"}
    host.connection.execute("SELECT fetchwork.submit_many(ARRAY[%s]::jsonb[])", [json.dumps(ad)])
    host.fails(subject="owners", text="'nosuchperson' has no account here")
    policy = {**ad, "PeriodicRemove": "/Expr(JobStatus == 5)/"}
    host.connection.execute("SELECT fetchwork.submit_many(ARRAY[%s]::jsonb[])", [json.dumps(policy)])
    (line,) = [line for line in host.diagnose() if line.subject == "policies"]
    assert (line.verdict, "no trusted host evaluates them" in line.text) == ("warn", True)
    # it has a key of its own for credentials
    host.connection.execute("SELECT fetchwork.publish_credential_key(%s)", [b"k" * 32])
    assert keys().verdict == "warn"
    assert "no host with the pool's key is at work" in keys().text
    host.connection.execute("SELECT fetchwork.take_leader_task('seal', 0)")
    assert (keys().verdict, "of this host alone" in keys().text) == ("ok", True)
    (host.directory / "identity" / "main.key").unlink()
    assert (keys().verdict, "there is no key file" in keys().text) == ("FAIL", True)
    host.connection.execute("UPDATE fetchwork.host_identity SET copied_at = now()")
    assert (role().verdict, "two hosts have the identity" in role().text) == ("FAIL", True)
    host.connection.execute("SELECT fetchwork.admit_host('test.example.org')")
    host.file.write_text(host.file.read_text().replace('"test.example.org"', '"other.example.org"'))
    assert "is that of 'test.example.org'" in role().text
    host.file.write_text(host.file.read_text().replace('"other.example.org"', '"test.example.org"'))
    host.connection.execute("UPDATE fetchwork.host_identity SET revoked_at = now()")
    assert (role().verdict, "host admit" in role().remedy) == ("FAIL", True)
    host.connection.execute("SELECT fetchwork.revoke_host('test.example.org')")


def test_role_without_an_agents_rights(host: TestHost, agent_role: tuple[str, str]) -> None:
    host.connection.execute(f"REVOKE fetchwork_agent FROM {agent_role[0]}")
    host.connection.execute(f"GRANT fetchwork_reader TO {agent_role[0]}")
    line = host.fails(subject="role")
    assert line.remedy == f'GRANT fetchwork_agent TO "{agent_role[0]}"'


def test_role_whose_rights_were_revoked(host: TestHost, agent_role: tuple[str, str]) -> None:
    host.connection.execute(f"REVOKE fetchwork_agent FROM {agent_role[0]}")
    line = only(host.failures())
    assert line.remedy != "see the message"
    assert "fetchwork_agent" in line.remedy


def test_hook_not_executable(host: TestHost) -> None:
    (host.hooks / "job_exit").chmod(0o644)
    line = host.fails(subject="hooks")
    assert f"hook '{host.hooks}/job_exit' is not executable for everyone (mode 644)" in line.text
    assert "chmod 755" in line.remedy


def test_hook_world_writable(host: TestHost) -> None:
    (host.hooks / "fetch_work").chmod(0o777)
    host.fails(
        text=f"hook '{host.hooks}/fetch_work' is world-writable, HTCondor refuses it", remedy="chmod 755"
    )


def test_hook_directory_world_writable(host: TestHost) -> None:
    host.hooks.chmod(0o777)
    host.fails(text=f"hook directory '{host.hooks}' is world-writable, HTCondor refuses it")


def test_hook_without_its_interpreter(host: TestHost) -> None:
    hook = host.hooks / "fetch_work"
    hook.write_text(hook.read_text().replace("#!/", "#!/nowhere/", 1))
    host.fails(text="interpreter '/nowhere/", remedy=f"fetchwork hooks install -c '{host.file}'")


@pytest.fixture
def compiled_host(host: TestHost) -> TestHost:
    if shutil.which("cc") is None:
        pytest.skip(WITHOUT_COMPILER)
    hookinstall.install_host(config.load(host.file), compiled=True)
    return host


def test_compiled_hooks_are_told(compiled_host: TestHost) -> None:
    (line,) = [line for line in compiled_host.diagnose() if line.subject == "hooks"]
    assert (line.verdict, line.text) == ("ok", f"FETCHWORK: {compiled_host.hooks}, compiled")


def test_compiled_hook_of_another_version(compiled_host: TestHost, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = compiled.this_build()
    monkeypatch.setattr(compiled, "this_build", lambda: ours._replace(build="0123456789abcdef"))
    (line,) = [line for line in compiled_host.diagnose() if line.subject == "hooks"]
    assert line.verdict == "warn"
    assert line.text.endswith("was compiled from another version of fetchwork")
    assert line.remedy == f"fetchwork hooks install -c '{compiled_host.file}' --compiled"


def test_compiled_hook_of_another_protocol(compiled_host: TestHost) -> None:
    data = (compiled_host.hooks / "job_exit").read_bytes()
    assert data.count(b"protocol=fetchwork/1 ") == 1
    (compiled_host.hooks / "job_exit").write_bytes(
        data.replace(b"protocol=fetchwork/1 ", b"protocol=fetchwork/0 ")
    )
    line = only(compiled_host.failures())
    assert line.text.endswith("speaks fetchwork/0, and the agent of this version speaks fetchwork/1")


def test_compiled_hook_without_its_hook_in_python(compiled_host: TestHost) -> None:
    (compiled_host.hooks / "job_exit.py").unlink()
    line = only(compiled_host.failures())
    assert line.text == f"'{compiled_host.hooks}/job_exit.py' can't run: no such file or directory"


def test_hooks_of_both_sorts(compiled_host: TestHost) -> None:
    (compiled_host.hooks / "job_exit.py").rename(compiled_host.hooks / "job_exit")
    line = only(compiled_host.failures())
    assert line.text == f"'{compiled_host.hooks}': some hooks are compiled, some are not"


def test_hooks_of_another_keyword_in_the_directory(host: TestHost) -> None:
    conf = host.hooks / "hook.conf"
    conf.write_text(conf.read_text().replace("FETCHWORK", "OTHER"))
    assert "sets keyword = OTHER; the host file has 'FETCHWORK'" in only(host.failures()).text


def test_hooks_installed_for_another_socket(host: TestHost) -> None:
    conf = host.hooks / "hook.conf"
    conf.write_text(conf.read_text().replace("agent.sock", "old.sock"))
    host.fails(text="run/old.sock; the host file has '", remedy=f"fetchwork hooks install -c {host.file}")


def test_settings_of_hooks_that_did_without_an_agent(host: TestHost) -> None:
    conf = host.hooks / "hook.conf"
    conf.write_text(conf.read_text() + "direct_python = /usr/bin/python3\ndirect_config = /etc/x.toml\n")
    host.fails(
        text="still sets direct_python, direct_config", remedy=f"fetchwork hooks install -c {host.file}"
    )


def test_hooks_not_installed(host: TestHost) -> None:
    host.hooks.rename(host.directory / "elsewhere")
    host.fails(
        text=f"hook directory '{host.hooks}': no such file or directory",
        remedy=f"fetchwork hooks install -c {host.file}",
    )


def test_hooks_of_a_removed_keyword_are_named(host: TestHost) -> None:
    text = host.file.read_text()
    hooks_of_two = f'hooks = "{host.directory}/hooks"\n'
    assert hooks_of_two in text
    more = f'{hooks_of_two}[keyword.OLD]\nhooks = "{host.directory}/old"\n'
    host.file.write_text(
        text.replace(hooks_of_two, more).replace("[[slots", '[slots]\ndefault = "OLD"\n[[slots')
    )
    hookinstall.install_host(config.load(host.file))
    host.file.write_text(text)
    left = only([line for line in host.diagnose() if line.subject == "leftover"])
    assert left.verdict == "warn"
    assert left.text == f"{host.directory}/old: has the hooks of keyword 'OLD', which is not in the host file"
    assert left.remedy == f"rm -r '{host.directory}/old', once no job runs that came by it"
    # hooks that ask another agent do not belong to this host file
    conf = host.directory / "old/hook.conf"
    conf.write_text(conf.read_text().replace("/agent.sock", "/other.sock"))
    assert [line for line in host.diagnose() if line.subject == "leftover"] == []


def test_keyword_misspelt_in_htcondor(host: TestHost) -> None:
    host.settings["SLOT4_JOB_HOOK_KEYWORD"] = "FETCHWROK"
    first = host.failures()[0]
    assert first.subject == "keywords"
    assert first.text.startswith("slot4: keyword 'FETCHWROK' has no hooks (did you mean FETCHWORK?)")


def test_keyword_misspelt_for_all_slots(host: TestHost) -> None:
    host.settings["STARTD_JOB_HOOK_KEYWORD"] = "FETCHWROK"
    first, second = host.failures()
    assert first.text.startswith("every slot: keyword 'FETCHWROK' has no hooks (did you mean FETCHWORK?)")
    assert "60-local:7:STARTD_JOB_HOOK_KEYWORD: HTCondor uses 'FETCHWROK'" in second.text


def test_htcondor_without_our_configuration(host: TestHost) -> None:
    host.settings.clear()
    host.settings["LOCAL_CONFIG_DIR"] = "/etc/condor/config.d"
    first = host.failures()[0]
    assert first.text == "no slot has a hook keyword, so none fetches"
    assert f"fetchwork config generate -c '{host.file}' -o /etc/condor/config.d" in first.remedy


def test_htcondor_that_uses_another_setting(host: TestHost) -> None:
    host.settings["PIPE_BUFFER_MAX"] = "10240"
    host.fails(subject="settings", text="PIPE_BUFFER_MAX: HTCondor uses '10240', the host file says '65536'")


def slots_line(host: TestHost) -> Line:
    (line,) = [line for line in host.diagnose() if line.subject == "slots"]
    return line


def test_slots_that_htcondor_makes_are_told(host: TestHost) -> None:
    assert slots_line(host) == ("ok", "slots", "4 static", "")
    for name in [name for name in host.settings if "SLOT" in name and "TYPE_1" in name]:
        del host.settings[name]
    host.settings["FetchWorkDelay"] = (
        "ifThenElse(PartitionableSlot =?= true && Cpus > 0 && Memory > 0, 1, 10)"
    )
    line = slots_line(host)
    assert line.text == ("one partitionable slot, HTCondor's default; while it has room it fetches every 1 s")
    host.settings["NUM_SLOTS_TYPE_1"] = "1"
    host.settings["SLOT_TYPE_1_PARTITIONABLE"] = "True"
    host.settings["NUM_SLOTS_TYPE_2"] = "3"
    assert slots_line(host).text.startswith("3 static and 1 partitionable; while it has room ")


def test_partitionable_slot_that_fills_slowly_is_a_warning(host: TestHost) -> None:
    host.settings["SLOT_TYPE_1_PARTITIONABLE"] = "True"
    line = slots_line(host)
    assert line.verdict == "warn"
    assert line.text == "4 partitionable; each fetch starts one job, and with room it fetches every 10 s only"


def test_start_that_is_false_without_a_job(host: TestHost) -> None:
    host.settings["START"] = 'TARGET.X =?= "good"'
    host.fails(text="is false without a job, so no slot will ever fetch")


def test_start_that_is_undefined_without_a_job_is_fine(host: TestHost) -> None:
    host.settings["START"] = 'TARGET.X == "good"'
    assert host.failures() == []


def test_no_htcondor(host: TestHost) -> None:
    (host.directory / "condor_config_val").unlink()
    host.fails(subject="HTCondor", text="no HTCondor found")


def test_host_that_does_not_read_all_that_submit_takes(host: TestHost) -> None:
    host.connection.execute("SELECT fetchwork.set_setting('max_ad_bytes', 100000)")
    line = host.fails(subject="ad size")
    assert line.text == (
        "main: submit takes ads of up to 100000 bytes (setting max_ad_bytes), and this host reads 65536"
    )
    assert "host.pipe_buffer_max = 100000" in line.remedy


def test_owner_of_the_schema_who_cannot_end_sessions(host: TestHost) -> None:
    call = host.connection.execute
    call('CREATE ROLE "schema-owner"')
    try:
        call('GRANT CREATE ON SCHEMA fetchwork TO "schema-owner"')
        call('ALTER FUNCTION fetchwork.maintain_queue OWNER TO "schema-owner"')
        line = only([line for line in host.diagnose() if line.subject == "notices"])
        assert line.verdict == "warn"
        assert line.text == (
            "main: role schema-owner, which owns the schema, can't end a session that fills PostgreSQL's"
            " queue of notifications"
        )
        assert line.remedy == 'GRANT pg_signal_backend, pg_read_all_stats TO "schema-owner"'
        call(line.remedy)
        assert not [line for line in host.diagnose() if line.subject == "notices"]
    finally:
        call("ALTER FUNCTION fetchwork.maintain_queue OWNER TO CURRENT_USER")
        call('DROP OWNED BY "schema-owner"')
        call('DROP ROLE "schema-owner"')


def test_move_of_the_database_that_offers_wait_for(host: TestHost) -> None:
    host.connection.execute(
        "UPDATE fetchwork.heartbeat SET offers_wait = true, moved_at = clock_timestamp();"
        "SELECT fetchwork.hello('silent.example.org', '1', gen_random_uuid())"
    )
    line = only([line for line in host.diagnose() if line.subject == "database" and line.verdict == "warn"])
    assert "moved to another server" in line.text
    assert "offers wait for " in line.text
    assert "silent.example.org" in line.text
    assert "fetchwork db resume" in line.remedy


@root_only
def test_owner_unknown_on_the_host(host: TestHost) -> None:
    host.connection.execute(
        "SELECT fetchwork.submit(cmd => '/bin/true', owner => owner) FROM unnest(%s::text[]) AS owner",
        [["nobody", "nosuchuser"]],
    )
    line = host.fails(subject="owners")
    assert line.text == "main: owner 'nosuchuser' (1 jobs) has no account here: none can start"
    assert "make the account" in line.remedy


@root_only
def test_owner_whose_jobs_are_in_a_queue_of_other_hosts_is_not_looked_for(host: TestHost) -> None:
    host.connection.execute("SELECT fetchwork.set_queue('other')")
    host.connection.execute(
        "SELECT fetchwork.submit(cmd => '/bin/true', owner => 'nosuchuser', queue => 'other')"
    )
    assert host.failures() == []


@pytest.mark.parametrize(("off", "word"), [(60, "ahead of"), (-60, "behind")])
def test_clock_off_by_a_minute(host: TestHost, off: int, word: str) -> None:
    lines = database.check(config.load(host.file), clock=lambda: time.time() + off)
    line = only([line for line in lines if line.verdict == "FAIL"])
    assert line.subject == "clock"
    assert line.text == f"main: this host's clock is 60 s {word} the database's"


def test_clock_off_by_ten_seconds_is_a_warning(host: TestHost) -> None:
    lines = database.check(config.load(host.file), clock=lambda: time.time() + 10)
    assert [(line.verdict, line.subject) for line in lines if line.verdict != "ok"] == [
        ("warn", "clock"),
        ("warn", "fetches"),
    ]


def test_spool_that_jobs_accounts_cannot_write_to(host: TestHost) -> None:
    (host.directory / "run/spool").chmod(0o700)
    host.fails(subject="spool", text="not every account can leave a report", remedy="chmod 3733")


def test_spool_whose_reports_the_agent_cannot_read(host: TestHost) -> None:
    (host.directory / "run/spool").chmod(0o1733)
    host.fails(text="the agent can't read the reports in it", remedy="chmod 3733")


@root_only
@pytest.mark.parametrize("kind", ["primary", "member"])
def test_agent_whose_group_has_other_accounts(
    host: TestHost, monkeypatch: pytest.MonkeyPatch, kind: Literal["primary", "member"]
) -> None:
    spool = host.directory / "run/spool"
    agent, other = pwd.getpwnam("daemon"), pwd.getpwnam("bin")
    group = grp.struct_group(("shared", "x", 4321, ["bin"] if kind == "member" else []))
    accounts = [agent, pwd.struct_passwd((*other[:3], 4321, *other[4:]))] if kind == "primary" else [agent]
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(pwd, "getpwall", lambda: accounts)
    os.chown(spool, agent.pw_uid, 4321)
    spool.chmod(0o3733)
    (line,) = [line for line in host.diagnose() if line.subject == "spool" and "group" in line.text]
    assert line.verdict == ("FAIL" if kind == "primary" else "warn")
    assert "bin can read what jobs leave, being of the agent's group 'shared'" in line.text


def spool_warnings(host: TestHost) -> list[Line]:
    return [line for line in host.diagnose() if line.subject == "spool" and line.verdict == "warn"]


def test_files_moved_aside_in_the_spool(host: TestHost) -> None:
    bad = host.directory / "run/spool/bad"
    bad.mkdir(exist_ok=True)
    for number in range(3):
        (bad / f"{number}.report").touch()
    line = only(spool_warnings(host))
    assert f"'{bad}' holds 3 files, 3 of them of uid {os.geteuid()}: no reports" in line.text
    assert "spool_rejected" in line.remedy


def test_spool_that_holds_unusually_many_files(host: TestHost, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = host.directory / "run/spool"
    count = len(list(spool.iterdir()))
    monkeypatch.setattr(hooks, "AT_ONCE", count)
    assert spool_warnings(host) == []
    # an incomplete file, so no agent takes it away
    (spool / "1.partial").touch()
    line = only(spool_warnings(host))
    assert f"'{spool}' holds {count + 1} files, " in line.text
    assert f"ls -ln '{spool}'" in line.remedy


def report(
    host: TestHost,
    ago_s: float,
    state: str = "Unclaimed",
    name: str = "slot1@test",
    slot_type: str = "Static",
) -> None:
    """Let the database have a slot that fetched so many seconds ago."""
    slot = {
        "name": name,
        "state": state,
        "activity": "Idle",
        "slot_type": slot_type,
        "fetched_at": time.time() - ago_s,
    }
    host.connection.execute(
        "SELECT fetchwork.report_slots(h.host_id, %s)"
        " FROM fetchwork.hello('test.example.org', '1', 'f0000000-0000-4000-8000-000000000000') AS h",
        [json.dumps([slot])],
    )


def test_queue_that_the_database_does_not_have_is_named(host: TestHost) -> None:
    file = host.directory / "host.toml"
    text = file.read_text()
    file.write_text(text.replace("[[slots", 'queues = ["default", "nosuch"]\n\n[[slots', 1))
    line = only([line for line in host.diagnose() if line.subject == "queues"])
    assert line.verdict == "warn"
    assert ".queues names 'nosuch', and the database has no such queue" in line.text


def test_last_fetch_of_each_slot_is_told(host: TestHost) -> None:
    for number in range(1, 11):
        report(host, 10 * number, name=f"slot{number}@test")
    line = host.diagnose()[-1]
    assert (line.verdict, line.subject) == ("ok", "fetches")
    # some seconds may pass meanwhile
    told = re.fullmatch(r"main: 10 slots fetch; time since the last fetch: (.*) \.\.\. 1\d\d s", line.text)
    assert told
    slots = [re.sub(r"\d s$", "? s", slot) for slot in told[1].split(", ")]
    assert slots == [f"slot{number} {number}? s" for number in range(1, 9)]


def test_slot_that_stopped_fetching_is_named(host: TestHost) -> None:
    report(host, 7300)
    line = host.diagnose()[-1]
    assert line.verdict == "warn"
    assert line.text == "main: 1 of 1 slots are quiet, slot1@test fetched 2 h ago"


def test_dynamic_slots_that_are_gone_are_not_taken_for_slots_that_fetch(host: TestHost) -> None:
    report(host, 180, name="slot1_2@test", slot_type="Dynamic")
    assert "has seen no slot of 'test.example.org' yet (it knows: no other host)" in host.diagnose()[-1].text
    report(host, 1, name="slot1@test", slot_type="Partitionable")
    line = host.diagnose()[-1]
    assert (line.verdict, line.subject) == ("ok", "fetches")
    assert line.text.startswith("main: 1 slot fetches; time since the last fetch: slot1 ")
    assert "slot1_2" not in line.text


def test_busy_slot_need_not_fetch(host: TestHost) -> None:
    report(host, 7200, state="Claimed")
    assert host.diagnose()[-1].verdict == "ok"


def test_broken_host_file_ends_the_diagnosis(host: TestHost) -> None:
    host.file.write_text(host.file.read_text().replace("name =", "nmae =", 1))
    lines = host.diagnose()
    assert {line.subject for line in lines} == {"host file"}
    assert "did you mean 'name'?" in lines[0].text


def test_command_prints_one_screen_and_ends_with_1_on_a_failure(
    host: TestHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.diagnose()  # writes the settings for the program
    monkeypatch.setenv("PATH", str(host.directory), prepend=os.pathsep)
    assert run(["doctor", "-c", str(host.file)]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 24
    assert out.startswith(f"ok    host file  {host.file}")
    host.stop_agent()
    assert run(["doctor", "-c", str(host.file)]) == 1
    assert "FAIL  agent      cannot connect to agent socket" in capsys.readouterr().out
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    run(["doctor", "-c", str(host.file)])
    told = capsys.readouterr()
    assert (told.err, told.out.splitlines()[-1][:15]) == ("", "not run as root")


def test_command_prints_json(
    host: TestHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    host.diagnose()
    monkeypatch.setenv("PATH", str(host.directory), prepend=os.pathsep)
    host.stop_agent()
    assert run(["doctor", "--json", "-c", str(host.file)]) == 1
    lines = json.loads(capsys.readouterr().out)
    assert [line["subject"] for line in lines if line["verdict"] == "FAIL"] == ["agent"]


def test_secrets_are_not_shown(host: TestHost) -> None:
    password = host.file.read_text().partition("password=")[2].split()[0].rstrip('"')
    assert len(password) > 8
    host.file.write_text(host.file.read_text().replace(f"password={password}", f"password={password}x"))
    lines = host.diagnose()
    assert any(line.verdict == "FAIL" and line.subject == "database" for line in lines)
    assert password not in str(lines)


def test_quiet_slot_of_a_workstation_is_no_wonder(host: TestHost) -> None:
    host.file.write_text(host.file.read_text() + "[workstation]\n")
    report(host, 7300)
    line = host.diagnose()[-1]
    assert (line.verdict, line.subject) == ("ok", "fetches")
    assert "as they are while the machine is in use" in line.text


# -- the host's name


def test_name_that_htcondor_does_not_have_for_the_host(host: TestHost) -> None:
    host.settings["FULL_HOSTNAME"] = "vm.example.org"
    (line,) = [line for line in host.diagnose() if line.subject == "host name"]
    assert line.verdict == "warn"
    assert line.text == "HTCondor calls this host 'vm.example.org', and fetchwork 'test.example.org'"
    assert 'host.name = "vm.example.org"' in line.remedy


def test_name_that_htcondor_has_for_the_host_too(host: TestHost) -> None:
    host.settings["FULL_HOSTNAME"] = "Test.example.org"
    assert not [line for line in host.diagnose() if line.subject == "host name"]


# -- leftovers


def test_unit_that_is_left_from_an_earlier_host_file_is_named(host: TestHost, tmp_path: Path) -> None:
    text = host.file.read_text()
    before = config.parse(text.replace("[agent]", '[agent]\nrun = "systemd"'))
    unit = tmp_path / UNIT_FILE
    unit.write_text(render(before)[UNIT_FILE])

    (finding,) = check_leftovers(config.parse(text), tmp_path)

    assert finding.where == str(unit)
    assert finding.wrong == "starts a second agent: it is left from agent.run = 'systemd', now 'master'"
    assert finding.allowed == f"systemctl disable --now fetchwork-agent, then rm '{unit}'"
    assert list(check_leftovers(before, tmp_path)) == []


def test_unit_of_another_host_file_is_no_leftover(host: TestHost, tmp_path: Path) -> None:
    text = host.file.read_text()
    other = text.replace("[agent]", '[agent]\nrun = "systemd"').replace("/host.toml", "/other.toml")
    (tmp_path / UNIT_FILE).write_text(render(config.parse(other))[UNIT_FILE])
    assert list(check_leftovers(config.parse(text), tmp_path)) == []


def test_a_host_without_transfer_plugins_or_space_for_files_is_warned_about(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "find", dict)
    assert "no file transfer plugin answers" in only(list(files.check(config.load(host.file)))).text
    monkeypatch.setattr(files, "find", lambda: {"http": None})
    monkeypatch.setattr(files, "_LEAST_FREE_MIB", 1 << 40)
    assert (
        "MiB left: the files of jobs pass through it" in only(list(files.check(config.load(host.file)))).text
    )


@pytest.mark.parametrize(
    ("happens", "verdict", "text"),
    [
        ("all is well", "ok", "answers and knows its key"),
        ("another key", "FAIL", "refuses its key: SignatureDoesNotMatch"),
        ("an error", "FAIL", "answers 503 Service Unavailable; large files neither come to this host nor"),
        ("nobody there", "FAIL", "does not answer: "),
        ("another server", "FAIL", "refuses its key: status 307"),
    ],
)
def test_a_bucket_that_a_host_cannot_use_is_told(
    host: TestHost, connection: psycopg.Connection, happens: str, verdict: str, text: str
) -> None:
    with serve_bucket() as bucket:
        secret = "another" if happens == "another key" else SECRET
        connection.execute("SELECT fetchwork.set_bucket(%s, %s, %s)", [bucket.url, ACCESS_KEY_ID, secret])
        bucket.broken = {"an error": 503, "another server": 307}.get(happens, 0)
        if happens != "nobody there":
            lines = list(files.check(config.load(host.file)))
    if happens == "nobody there":
        lines = list(files.check(config.load(host.file)))
    (line,) = [line for line in lines if line.subject == "bucket"]
    assert line.verdict == verdict
    assert f"{bucket.url} " in line.text or f"{bucket.url}: " in line.text
    assert text in line.text
    assert "X-Amz" not in line.text
    # only reads were made
    assert {method for method, _, _ in bucket.asked} <= {"GET"}
