"""The batch script of a pilot in Slurm has the commands of the pilot's page."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "config-examples/pilots-on-demand/pilot.sbatch"


def test_the_shell_reads_it() -> None:
    done = subprocess.run(["sh", "-n", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_commands_are_those_of_the_page() -> None:
    page = (ROOT / "docs/howto/pilot.md").read_text()
    block = re.search(r"```sh\n(fetchwork host join .*?)```", page, re.S)
    assert block
    join, install, start = block[1].strip().splitlines()
    lines = SCRIPT.read_text().replace('"', "").replace("$pilot", "/srv/pilot").splitlines()
    # in the background, so that the script can pass on Slurm's signal
    wanted = [join, install, f"{start} -f &"]
    assert [line for line in lines if line in wanted] == wanted


def test_slurm_reads_its_options_before_the_first_command() -> None:
    lines = SCRIPT.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    options = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    assert options == [*range(1, 1 + len(options))]
    assert len(options) < first
    # the script itself gets the signal, not the processes of HTCondor
    assert "#SBATCH --signal=B:TERM@300" in lines
