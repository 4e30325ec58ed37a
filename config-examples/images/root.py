#!/usr/bin/env python3
"""Makes a root directory by the steps of the Containerfile beside this file.

    root.py pilot DIRECTORY
    root.py access-point DIRECTORY

It runs as root in a checkout, after ``make deb``, where debootstrap is installed, and makes DIRECTORY. The
base image is not fetched from a registry: debootstrap makes it from the packages of the same Debian release.
At the end the script prints the command by which podman makes an image of the directory; Apptainer and
systemd-nspawn start the directory itself.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTEXT = HERE.parents[1]
MIRROR = "http://deb.debian.org/debian"
#: the variables of our own environment that a step has too
PASSED = ("http_proxy", "https_proxy", "no_proxy")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# with mounts and processes of its own, so that nothing stays mounted or running
_APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--")
_BASE = r"""
debootstrap --variant=minbase "$2" "$1" "$3"
# as in Debian's images: no package starts a service
printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d"
chmod 755 "$1/usr/sbin/policy-rc.d"
"""
_STEP = """
set -e
root=$1 user=$2 directory=$3
shift 3
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
touch "$root/etc/resolv.conf"
mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
exec chroot --userspec="$user" "$root" env -i "$@" /bin/sh -c 'cd "$0" && eval "$STEP"' "$directory"
"""


@dataclass
class Image:
    """The start of a container of the image; the names are those of the OCI image format's ``config``."""

    env: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    user: str = "0:0"
    working_dir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    healthcheck: str = ""
    #: the instructions that hold for containers, as they stand in the Containerfile
    changes: list[str] = field(default_factory=list)


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Containerfile, each with its words; continued lines are one."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, words) for name, _, words in (line.partition(" ") for line in joined.splitlines())]


def steps(text: str, target: str) -> list[tuple[str, str]]:
    """The instructions that make the stage ``target``: FROM of Debian, then those of all stages below it."""
    stages: dict[str, list[tuple[str, str]]] = {}
    stage: list[tuple[str, str]] = []
    for name, words in instructions(text):
        if name == "FROM":
            base, _, stage_name = words.partition(" AS ")
            stage = list(stages.get(base) or [("FROM", base)])
            stages[stage_name] = stage
        else:
            stage.append((name, words))
    if target not in stages:
        raise SystemExit(f"there is no stage '{target}'; there are: {', '.join(stages)}")
    return stages[target]


def make(root: Path, todo: list[tuple[str, str]], image: Image) -> None:
    """Do instructions in a root directory, and note in ``image`` those that hold for its containers."""
    for name, words in todo:
        print(f"{name} {words}", file=sys.stderr, flush=True)
        match name:
            case "FROM":
                _from(root, words)
            case "COPY":
                _copy(root, words)
            case "RUN":
                _run(root, words, image)
            case "ENV":
                variable, _, value = words.partition("=")
                image.env[variable] = value
            case "USER":
                image.user = words
            case "WORKDIR":
                image.working_dir = words
            case "ENTRYPOINT":
                image.entrypoint = json.loads(words)
            case "HEALTHCHECK":
                image.healthcheck = words.removeprefix("CMD ")
            case "EXPOSE" | "VOLUME":
                pass
            case _:
                raise SystemExit(f"root.py does not know the instruction {name}")
        if name not in ("FROM", "COPY", "RUN", "HEALTHCHECK"):
            image.changes.append(f"{name} {words}")


def _from(root: Path, base: str) -> None:
    found = re.fullmatch(r"debian:(\w+)-slim", base)
    if found is None:
        raise SystemExit(f"root.py makes debian:SUITE-slim, not '{base}'")
    subprocess.run([*_APART, "sh", "-ec", _BASE, "sh", root, found[1], MIRROR], check=True)


def _copy(root: Path, words: str) -> None:
    *sources, target = shlex.split(words)
    mode = None
    if sources[0].startswith("--chmod="):
        mode = int(sources.pop(0).partition("=")[2], 8)
    paths = [path for source in sources for path in CONTEXT.glob(source)]
    if len(paths) != 1:
        raise SystemExit(f"COPY takes one file, and {len(paths)} are '{' '.join(sources)}' in '{CONTEXT}'")
    into = root / target.lstrip("/")
    into.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(paths[0], into)
    into.chmod(mode if mode is not None else 0o644)


def _run(root: Path, script: str, image: Image) -> None:
    ours = {name: os.environ[name] for name in PASSED if name in os.environ}
    env = [f"{name}={value}" for name, value in {**ours, **image.env, "STEP": script}.items()]
    command = [*_APART, "sh", "-c", _STEP, "sh", str(root), image.user, image.working_dir, *env]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """Make the directory that the command line names."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    target, directory = sys.argv[1], Path(sys.argv[2]).absolute()
    directory.mkdir(mode=0o755)
    image = Image()
    make(directory, steps((HERE / "Containerfile").read_text(), target), image)
    changes = " ".join(f"--change {shlex.quote(change)}" for change in image.changes)
    print(f"tar -C {shlex.quote(str(directory))} -c . | podman import {changes} - fetchwork-{target}")


if __name__ == "__main__":
    main()
