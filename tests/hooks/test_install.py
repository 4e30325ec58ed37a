"""Installing hooks: the installed files, their writers, and the refused directories."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fetchwork import config
from fetchwork.cli.agent import cli as agent_cli
from fetchwork.cli.hooks import cli
from fetchwork.cli.userlog import default_state
from fetchwork.deploy import compiled
from fetchwork.deploy import hooks as hookinstall
from fetchwork.deploy.check import Locator, check_agent_reads, check_socket
from fetchwork.errors import ConfigError, FetchworkError
from fetchwork.hook.sandboxed import SAVER
from fetchwork.hook.wire import HOOKS
from tests.conftest import WITHOUT_COMPILER

ROOT = os.geteuid() == 0


@pytest.fixture
def home(public_directory: Callable[[], Path]) -> Path:
    return public_directory()


def conf_of(directory: Path) -> dict[str, str]:
    lines = (directory / "hook.conf").read_text().splitlines()
    return dict(line.split(" = ", 1) for line in lines if not line.startswith("#"))


def host_file(home: Path, **keyword: object) -> Path:
    file = home / "host.toml"
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keyword.items())
    file.write_text(
        f'[database.main]\nconninfo = "dbname=x"\n[agent]\nuser = ""\nsocket = "{home}/run/agent.sock"\n'
        f'spool = "{home}/run/spool"\nvenv = "/opt/x"\n'
        '[slots]\ndefault = "ONE"\n'
        f'[keyword.ONE]\nhooks = "{home}/hooks/ONE"\n{table}\n[keyword.TWO]\nhooks = "{home}/hooks/TWO"\n'
    )
    return file


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, ["install", *map(str, args)], catch_exceptions=False)


def test_everything_is_readable_by_all_and_writable_by_its_owner_only(home: Path) -> None:
    hookinstall.install(home / "a/b/hooks", keyword="FW", socket="/run/x.sock", spool="/var/x")
    for path in (home / "a").rglob("*"):
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        executable = path.is_dir() or path.name in {*HOOKS, SAVER}
        assert mode == (0o755 if executable else 0o644), path
    assert conf_of(home / "a/b/hooks") == {"keyword": "FW", "socket": "/run/x.sock", "spool": "/var/x"}


def test_umask_does_not_matter(home: Path) -> None:
    old = os.umask(0o077)
    try:
        test_everything_is_readable_by_all_and_writable_by_its_owner_only(home)
    finally:
        os.umask(old)


def test_the_chosen_interpreter_runs_them(home: Path) -> None:
    python = home / "python"
    python.symlink_to("/usr/bin/python3")
    [first, *_] = hookinstall.install(home / "hooks", keyword="FW", socket="/nowhere", python=python)
    assert first.read_text().startswith(f"#!{python} -IS\n")
    assert (
        b"cannot connect to agent socket '/nowhere'"
        in subprocess.run([first], capture_output=True, input=b"").stderr
    )


def test_hooks_do_not_write_and_do_not_need_the_sources(home: Path) -> None:
    hookinstall.install(home / "hooks", keyword="FW", socket="/nowhere")
    before = sorted(home.rglob("*"))
    for source in (home / "hooks/lib/fetchwork").glob("*.py"):
        # a compiled module is taken as it is: its source is not even compared
        source.write_text("this is not Python")
    run = subprocess.run([home / "hooks/fetch_work"], capture_output=True, input=b"")
    assert b"cannot connect" in run.stderr
    assert sorted(home.rglob("*")) == before


def test_installing_again_replaces_everything_at_once(home: Path) -> None:
    target = home / "hooks"
    hookinstall.install(target, keyword="FW", socket="/one")
    (target / "fetch_work").write_text("spoilt")
    old = (target / "lib").resolve()
    old.rename(target / "lib-0123456789abcdef")
    hookinstall.install(target, keyword="FW", socket="/two")
    assert (target / "fetch_work").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert conf_of(target)["socket"] == "/two"
    assert [path.name for path in target.glob("lib-*")] == [os.readlink(target / "lib")]
    assert not list(target.rglob(".*"))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"keyword": "a b"}, "keyword 'a b': allowed are letters, digits and _, a letter first"),
        ({"keyword": "x\ny = 1"}, "allowed are letters"),
        ({"socket": "run/x"}, "socket 'run/x': allowed is an absolute path"),
        ({"socket": "/" + "x" * 107}, "allowed are 107 bytes"),
        ({"spool": "/a\nkeyword = root"}, "allowed is an absolute path without line breaks"),
        ({"python": "/no/such/python"}, "does not exist or is not executable"),
        ({"python": "/usr/bin/env python3"}, "without blanks"),
        ({"deadline_s": 0.5}, "deadline_s 0.5: allowed are 1 to 86400"),
    ],
)
def test_a_setting_that_can_not_work_is_refused_and_nothing_is_written(
    home: Path, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        hookinstall.install(home / "hooks", **{"keyword": "FW", "socket": "/x"} | settings)
    assert not (home / "hooks").exists()


def test_every_problem_is_told_at_once(home: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        hookinstall.install("hooks", keyword="1", socket="x", python="y")
    assert len(caught.value.problems) == 4


def test_a_world_writable_directory_is_refused(home: Path) -> None:
    (home / "open").mkdir()
    (home / "open").chmod(0o777)
    for target in (home / "open", home / "open/hooks"):
        with pytest.raises(ConfigError, match="is world-writable: HTCondor does not run hooks from there"):
            hookinstall.install(target, keyword="FW", socket="/x")


@pytest.mark.skipif(not ROOT, reason="only root's hooks run as other accounts")
def test_a_directory_that_job_users_can_not_enter_is_refused(home: Path) -> None:
    (home / "closed").mkdir()
    (home / "closed").chmod(0o700)
    with pytest.raises(ConfigError, match="closed' is closed to job users"):
        hookinstall.install(home / "closed/hooks", keyword="FW", socket="/x")


def test_an_interpreter_that_is_none_is_told(home: Path) -> None:
    with pytest.raises(FetchworkError, match="'/bin/false' is not a working Python 3"):
        hookinstall.install(home / "hooks", keyword="FW", socket="/x", python="/bin/false")


# -- compiled

compiler = pytest.mark.skipif(shutil.which("cc") is None, reason=WITHOUT_COMPILER)


@compiler
def test_compiled_hooks_are_one_file_beside_the_hooks_in_python(home: Path) -> None:
    target = home / "hooks"
    paths = hookinstall.install(target, keyword="FW", socket="/nowhere", compiled=True)
    assert [path.name for path in paths] == list(HOOKS)
    assert len({path.stat().st_ino for path in paths}) == 1
    for path in paths:
        assert compiled.build_of(path) == compiled.this_build()
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
        assert path.with_name(f"{path.name}.py").read_text().startswith("#!/usr/bin/python3 -IS\n")
    assert not list(target.rglob(".*"))
    run = subprocess.run([paths[0]], capture_output=True, input=b"")
    message = b"fetchwork fetch_work: cannot connect to agent socket '/nowhere': No such file or directory\n"
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", message)


@compiler
def test_hooks_change_from_python_to_compiled_and_back(home: Path) -> None:
    target = home / "hooks"
    is_compiled = False
    for asked in (None, True, None, True, False, None):
        is_compiled = is_compiled if asked is None else asked
        hookinstall.install(target, keyword="FW", socket="/nowhere", compiled=asked)
        assert (compiled.build_of(target / "job_exit") is not None) is is_compiled
        assert len(list(target.glob("*.py"))) == (6 if is_compiled else 0)
        assert (
            b"cannot connect" in subprocess.run([target / "job_exit"], capture_output=True, input=b"").stderr
        )


@pytest.fixture(scope="module")
def compiled_hooks(public_directory: Callable[[], Path]) -> Path:
    directory = public_directory() / "hooks"
    hookinstall.install(directory, keyword="FW", socket="/nowhere", compiled=True)
    return directory


@pytest.mark.parametrize("name", HOOKS)
@compiler
def test_a_compiled_hook_without_its_hook_in_python_fails_as_htcondor_reads_it(
    compiled_hooks: Path, name: str
) -> None:
    (compiled_hooks / f"{name}.py").unlink()
    run = subprocess.run([compiled_hooks / name], capture_output=True, input=b"")
    assert run.returncode == (0 if name == "fetch_work" else 1)
    assert run.stdout.startswith(b"HookStatusCode = 350\n" if name == "prepare_job" else b"")
    cause = f"cannot start '{compiled_hooks}/{name}.py': No such file or directory\n"
    assert run.stderr.decode().endswith(cause)


def test_without_a_compiler_it_says_what_is_missing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O9")
    done = CliRunner().invoke(cli, ["install", "--compiled", "--config", str(host_file(home))])
    assert isinstance(done.exception, FetchworkError)
    assert str(done.exception).startswith(
        "compiled hooks need a C compiler, and there is no 'no-such-compiler'"
    )


@compiler
def test_a_compiler_that_fails_is_quoted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc --no-such-option")
    with pytest.raises(FetchworkError, match=r"'cc' cannot compile '.*hook/compiled': .*no-such-option"):
        hookinstall.install(home / "hooks", keyword="FW", socket="/nowhere", compiled=True)
    assert not list((home / "hooks").glob(".*"))


# -- the command


def test_a_host_file_gives_each_keyword_its_directory_and_the_agent_its_spool(home: Path) -> None:
    done = run("--config", host_file(home))
    assert done.exit_code == 0
    assert done.output == f"ONE: 6 hooks in {home}/hooks/ONE\nTWO: 6 hooks in {home}/hooks/TWO\n"
    assert conf_of(home / "hooks/TWO") == {
        "keyword": "TWO",
        "socket": f"{home}/run/agent.sock",
        "spool": f"{home}/run/spool",
        "job_exit_timeout_s": "600",
    }
    assert stat.S_IMODE((home / "run/spool").stat().st_mode) == 0o3733
    assert stat.S_IMODE((home / "run").stat().st_mode) == 0o755


def test_deadlines_follow_the_host_file(home: Path) -> None:
    run("--config", host_file(home, max_fetch_wait_s=100, job_exit_timeout_s=10))
    assert (
        conf_of(home / "hooks/ONE")["deadline_s"],
        conf_of(home / "hooks/ONE")["job_exit_deadline_s"],
    ) == (
        "145",
        "6",
    )


def test_one_keyword_can_go_to_a_directory(home: Path) -> None:
    done = run(home / "mine", "--keyword", "TWO", "--config", host_file(home), "--json")
    assert json.loads(done.output) == {"TWO": [str(home / "mine" / name) for name in HOOKS]}
    assert conf_of(home / "mine")["keyword"] == "TWO"
    assert not (home / "hooks").exists()


def test_a_directory_needs_a_keyword_where_there_are_two(home: Path) -> None:
    done = run(home / "mine", "--config", host_file(home))
    assert done.exit_code == 2
    assert "DIRECTORY is for one keyword: name it with --keyword (ONE, TWO)" in " ".join(done.output.split())


def test_an_unknown_keyword_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="--keyword NOPE: is not in the host file; allowed: ONE, TWO"):
        run("--keyword", "NOPE", "--config", host_file(home))


@pytest.mark.skipif(not ROOT, reason="needs root, to give a directory away")
def test_the_spool_belongs_to_the_agents_account(home: Path) -> None:
    file = host_file(home)
    file.write_text(file.read_text().replace('user = ""', 'user = "nobody"'))
    for _ in range(2):
        assert run("--config", file).exit_code == 0
    assert {(home / each).stat().st_uid for each in ("run", "run/spool", "run/spool/bad")} == {65534}
    assert (home / "hooks/ONE").stat().st_uid == 0


@pytest.mark.skipif(not ROOT, reason="needs root, to give a directory away")
def test_directory_that_root_made_before_becomes_the_agents(home: Path) -> None:
    """An older 'fetchwork userlog' made /var/lib/fetchwork as root's."""
    (home / "fetchwork").mkdir(mode=0o755)
    (home / "fetchwork" / "userlog-1.json").touch()
    file = host_file(home)
    text = file.read_text().replace('user = ""', 'user = "nobody"')
    file.write_text(text.replace(f"{home}/run/", f"{home}/fetchwork/"))

    assert run("--config", file).exit_code == 0

    assert (home / "fetchwork").stat().st_uid == 65534
    probe = ["setpriv", "--reuid=65534", "--clear-groups", "touch", f"{home}/fetchwork/agent.sock"]
    assert subprocess.run(probe, check=False).returncode == 0


@pytest.mark.skipif(not ROOT, reason="needs root, to be refused")
def test_commands_that_root_runs_before_the_agent_make_nothing_in_its_directories(home: Path) -> None:
    file = host_file(home)
    file.write_text(file.read_text().replace('user = ""', 'user = "nobody"'))

    done = CliRunner().invoke(agent_cli, ["--config", str(file)])

    assert isinstance(done.exception, FetchworkError)
    assert "runs as 'nobody' (agent.user), not as root" in str(done.exception)
    assert sorted(path.name for path in home.iterdir()) == ["host.toml"]
    agents_own = type(config.load(file).agent).model_fields["spool"].default.parent
    assert agents_own not in default_state("dbname=x", None, ()).parents


@pytest.mark.skipif(not ROOT, reason="needs root, to give a directory away")
def test_socket_directory_that_the_agent_cannot_write_to_is_found_by_check(home: Path) -> None:
    (home / "run").mkdir(mode=0o755)
    file = host_file(home)
    file.write_text(file.read_text().replace('user = ""', 'user = "nobody"'))
    host = config.load(file)

    (finding,) = check_socket(host, Locator(file))

    assert finding.where == f"{file}:5:agent.socket"
    assert finding.wrong == f"account 'nobody' cannot make the agent's socket in '{home}/run'"
    os.chown(home / "run", 65534, -1)
    assert list(check_socket(host, Locator(file))) == []


@pytest.mark.skipif(not ROOT, reason="needs root, to ask as another account")
def test_host_file_that_the_agent_cannot_read_is_found_by_check(home: Path) -> None:
    file = host_file(home)
    file.write_text(file.read_text().replace('user = ""', 'user = "nobody"'))
    file.chmod(0o600)

    (finding,) = check_agent_reads(config.load(file), Locator(file))

    assert finding.where == str(file)
    assert finding.wrong == "account 'nobody' (agent.user) cannot read it, so the agent ends at its start"
    os.chown(file, 65534, -1)
    assert list(check_agent_reads(config.load(file), Locator(file))) == []


@pytest.mark.skipif(not ROOT, reason="needs root, to give a directory away")
def test_an_account_that_does_not_exist_is_named(home: Path) -> None:
    file = host_file(home)
    file.write_text(file.read_text().replace('user = ""', 'user = "nosuchuser"'))
    with pytest.raises(ConfigError, match=r"agent.user: account 'nosuchuser' does not exist on this host"):
        run("--config", file)
