"""The directory of HTCondor's commands."""

import stat
import sys
from pathlib import Path

import pytest

from fetchwork.condor import directory
from fetchwork.errors import FetchworkError


def test_commands_for_all_accounts_are_where_all_accounts_may_enter(
    tmp_path_factory: pytest.TempPathFactory, public_directory: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(public_directory)
    shared = public_directory() / "condor"
    own = tmp_path_factory.mktemp("own")
    own.chmod(0o700)
    monkeypatch.setattr(directory, "SHARED", shared)
    # a folder can't be made in a file
    monkeypatch.setattr(sys, "prefix", __file__)
    monkeypatch.setenv("XDG_DATA_HOME", str(own))
    assert directory.made() == own / "fetchwork/condor"
    assert directory.made(for_all=True) == shared
    assert (shared / "condor_submit").stat().st_mode & stat.S_IXOTH
    monkeypatch.setattr(directory, "SHARED", Path(own) / "shared")
    with pytest.raises(FetchworkError, match="is closed to other accounts"):
        directory.made(for_all=True)
