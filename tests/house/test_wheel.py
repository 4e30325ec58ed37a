"""The wheel is complete: in an empty environment it has its hooks, SQL, templates, examples and documents."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

import pytest

from fetchwork import __version__
from fetchwork.cli import COMMANDS
from tests.house.source import ROOT, tracked

pytestmark = pytest.mark.slow


def call(*command: str | Path, cwd: Path | None = None) -> str:
    """A command's output; printed if the command failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fetchwork-wheel-") as directory:
        # pip builds it in an environment that has only pyproject.toml's build requirements
        call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", directory, ROOT)
        (built,) = Path(directory).glob("*.whl")
        yield built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The bin directory of an environment that has only the wheel and its dependencies."""
    environment = wheel.parent / "environment"
    call(sys.executable, "-m", "venv", environment)
    lock = ROOT / "requirements.lock"
    call(environment / "bin/pip", "install", "--quiet", "--constraint", lock, wheel)
    return environment / "bin"


def test_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    homes = {"fetchwork": "fetchwork", "sql": "fetchwork/_sql", "hooks": "fetchwork/_hooks"}
    homes["config-examples"] = "fetchwork/_config-examples"
    wanted = set()
    for path in tracked():
        top, *rest = path.relative_to(ROOT).parts
        if rest and top in homes:
            wanted.add("/".join((homes[top], *rest)))
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert wanted - names == set()
    shared = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert shared == {
        "share/man/man1/fetchwork.1",
        "share/bash-completion/completions/fetchwork",
        "share/zsh/site-functions/_fetchwork",
        "share/fish/vendor_completions.d/fetchwork.fish",
    }
    names = {name for name in names if ".data/data/" not in name}
    assert {name for name in names - wanted if "__pycache__" not in name} == set()


def test_wheel_says_who_made_it_and_for_what(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Name"] == "fetchwork"
    assert metadata["Version"] == __version__
    assert metadata["Author"] == "fetchwork developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_wheel_has_a_manual_page_of_the_commands(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/man1/fetchwork.1")]
        page = archive.read(name).decode()
    for section in COMMANDS.values():
        for command in section:
            assert f".SS fetchwork {command}\n".replace("-", "\\-") in page


@pytest.mark.all
def test_wheel_passes_the_check_of_twine(wheel: Path) -> None:
    tools = wheel.parent / "tools"
    call(sys.executable, "-m", "venv", tools)
    call(tools / "bin/pip", "install", "--quiet", "twine")
    assert "PASSED" in call(tools / "bin/twine", "check", "--strict", wheel)


@pytest.mark.all
def test_installed_wheel_has_a_working_command(installed: Path, tmp_path: Path) -> None:
    command = installed / "fetchwork"
    assert "fetch-work hooks" in call(command, "--help", cwd=tmp_path)
    assert __version__ in call(command, "--version", cwd=tmp_path)
    sql = Path(call(command, "db", "sql", cwd=tmp_path).strip())
    assert (sql / "install.sql").is_file()
    assert installed.parent in sql.parents


@pytest.mark.all
def test_installed_wheel_makes_configuration_of_its_examples(installed: Path, tmp_path: Path) -> None:
    (examples,) = installed.parent.glob("lib/python3*/site-packages/fetchwork/_config-examples")
    files = sorted(examples.glob("*.toml"))
    assert files
    for file in files:
        call(installed / "fetchwork", "config", "check", "--offline", "-c", file, cwd=tmp_path)
        generated = call(installed / "fetchwork", "config", "generate", "-c", file, cwd=tmp_path)
        assert "_HOOK_FETCH_WORK = " in generated


@pytest.mark.all
def test_installed_wheel_installs_its_hooks(installed: Path, public_directory: Callable[[], Path]) -> None:
    directory = public_directory()
    host = directory / "host.toml"
    host.write_text(
        '[database.main]\nservice = "x"\n[agent]\nuser = ""\n'
        f'spool = "{directory}/spool"\nsocket = "{directory}/agent.sock"\n[keyword.FETCHWORK]\n'
    )
    call(
        installed / "fetchwork",
        "hooks",
        "install",
        directory / "hooks",
        "-c",
        host,
        "--python",
        installed / "python",
    )
    made = {path.name for path in (directory / "hooks").iterdir()}
    assert {path.name for path in (ROOT / "hooks").iterdir()} - made == set()
