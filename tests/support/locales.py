"""Locales of other languages, which a machine may lack: made by ``localedef`` for the tests."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: case differs from ASCII's, in UTF-8 and in a character set of one byte
NAMES = ["tr_TR.UTF-8", "tr_TR.ISO-8859-9"]


def environment(name: str, tmp_path: Path) -> dict[str, str]:
    """The variables of a process that runs in a locale, made once for all tests of a worker; skips if it
    cannot be made.
    """
    directory = tmp_path.parent / "locales"
    if not (directory / name).exists():
        _make(name, directory)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LC_")}
    return {**kept, "LOCPATH": str(directory), "LANG": name}


def _make(name: str, directory: Path) -> None:
    if shutil.which("localedef") is None:
        pytest.skip(f"no locale {name}: no localedef")
    directory.mkdir(exist_ok=True)
    language, _, charset = name.partition(".")
    made = subprocess.run(
        ["localedef", "-i", language, "-f", charset, str(directory / name)],
        check=False,
        capture_output=True,
        text=True,
    )
    # 1: made, with warnings
    if made.returncode > 1:
        pytest.skip(f"no locale {name}: {made.stderr.strip()}")
