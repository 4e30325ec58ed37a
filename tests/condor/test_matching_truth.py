"""HTCondor's decisions agree with tests/data/matching.txt: asked by ``condor_q -analyze``.

That command evaluates a job ad and a slot ad, each from a file, with the code that the negotiator uses.
"""

import re
import subprocess
from pathlib import Path

import pytest

from fetchwork.pool.condorroot import OWN_ROOT, CondorRoot
from tests.support.matching_table import pairs

# a process for each pair: each has its own slot, and condor_q counts slots
ASK = """
cd /mnt
export CONDOR_CONFIG=ONLY_ENV LC_ALL=C.UTF-8
condor_version > version
for job in *.job; do
    number=${job%.job}
    condor_q -analyze:summary -jobads $job -slotads $number.slot > $number.out 2>&1
done
"""
# the machine's own name must be found without a name server, which may be slow
IN_ROOT = f"""
{OWN_ROOT}
own_root "$2" "$4" overlay
echo "127.0.0.1 $(hostname) localhost" > "$1/hosts"
mount --bind "$1" "$2/mnt"
mount --bind "$1/hosts" "$2/etc/hosts"
exec chroot "$2" sh -c "$3"
"""


def ask(root: CondorRoot, directory: Path) -> None:
    arguments = [str(directory), str(root.path), ASK, str(root.venv)]
    command = ["unshare", "--mount", "--", "sh", "-ec", IN_ROOT, "sh", *arguments]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def decision(answer: str) -> str:
    """The decision in the last line: the job, how many slots match its Requirements, how many reject it."""
    fields = answer.splitlines()[-1].split()
    assert fields[0] == "1.0", answer
    matched, refused = int(fields[1]), int(fields[2])
    return "job refuses" if not matched else "slot refuses" if refused else "match"


@pytest.fixture(scope="session")
def decided(root: CondorRoot, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """HTCondor's decisions, by the names of the pairs."""
    directory = tmp_path_factory.mktemp("pairs")
    for number, pair in enumerate(pairs()):
        (directory / f"{number:03}.job").write_text(f'MyType = "Job"\nClusterId = 1\nProcId = 0\n{pair.job}')
        # condor_q evaluates a partitionable slot as if nothing ran on it
        slot = pair.slot.replace("PartitionableSlot = true\n", "")
        (directory / f"{number:03}.slot").write_text(
            slot if "MyType" in slot else f'MyType = "Machine"\n{slot}'
        )
    ask(root, directory)
    own = major_version((directory / "version").read_text())
    answers = [decision(path.read_text()) for path in sorted(directory.glob("*.out"))]
    # an older HTCondor cannot evaluate some expressions of a newer startd, and never gets any
    return {
        pair.name: answer
        for pair, answer in zip(pairs(), answers, strict=True)
        if major_version(pair.slot) <= own
    }


def major_version(text: str) -> int:
    found = re.search(r"\$CondorVersion: (\d+)\.", text)
    assert found, text
    return int(found[1])


def test_htcondor_decides_as_the_table_says(decided: dict[str, str]) -> None:
    said = {pair.name: pair.decision.replace("fetchwork refuses", "match") for pair in pairs()}
    assert len(decided) >= 200
    assert decided == {name: said[name] for name in decided}
