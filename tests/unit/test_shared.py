"""The manual page and the shell completions that the wheel installs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fetchwork.cli import COMMANDS
from fetchwork.cli.manpage import manual_page

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "fetchwork/cli/shared"


#: refuses every module but click's, fetchwork's and the standard library's, as if no other were installed
CLICK_ALONE = """
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"click", "fetchwork", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Refused())
from fetchwork.cli.manpage import manual_page
print(manual_page(), end="")
"""


def test_the_manual_page_needs_click_alone() -> None:
    done = subprocess.run([sys.executable, "-c", CLICK_ALONE], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == manual_page()


def test_the_manual_page_has_every_command() -> None:
    page = manual_page()
    for section in COMMANDS.values():
        for name in section:
            assert f".SS fetchwork {name}\n".replace("-", "\\-") in page
    # a line that begins with a dot is a command of troff
    orders = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert orders <= {'.\\"', ".TH", ".SH", ".SS", ".B", ".PP", ".TP", ".nf", ".fi"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_groff_reads_the_manual_page() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z"], input=manual_page(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["fetchwork", "sub"], {"submit", "submitters"}),
        (["fetchwork", "q", "--tot"], {"--totals"}),
        (["fetchwork", "db", "in"], {"init"}),
        (["fetchwork", "nothing"], set()),
    ],
)
def test_bash_completes(words: list[str], wanted: set[str]) -> None:
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
        compopt() {{ :; }}
        source {SHARED / "fetchwork.bash"}
        COMP_WORDS=({quoted}) COMP_CWORD={len(words) - 1}
        _fetchwork_completion fetchwork
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == wanted
