"""The arguments of HTCondor's PersonalPool."""

import os
from pathlib import Path

import pytest

from fetchwork.personal import PersonalPool, PersonalPoolState


def test_a_pool_takes_the_arguments_of_the_bindings(tmp_path: Path) -> None:
    pool = PersonalPool(
        local_dir=tmp_path / "pool",
        config={"A": "1", "EMPTY": None},
        raw_config="""
            B = 2
        """,
        detach=True,
        use_config=False,
    )
    assert pool.local_dir == tmp_path / "pool"
    assert "A = 1\nEMPTY = \n" in pool.settings.config
    assert "\nB = 2\n" in pool.settings.config
    assert pool.state is PersonalPoolState.UNINITIALIZED
    assert pool.initialize().state == "INITIALIZED"
    assert repr(pool) == f"PersonalPool(local_dir={tmp_path / 'pool'}, state=INITIALIZED)"


def test_text_for_a_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="raw_config is text"):
        PersonalPool(tmp_path / "pool", config="A = 1")  # type: ignore[arg-type]


def test_the_pool_is_the_local_one_for_a_while(tmp_path: Path) -> None:
    pool = PersonalPool(tmp_path / "pool", use_config=False, database="dbname=somewhere")
    before = dict(os.environ)
    with pool.use_config():
        assert os.environ["FETCHWORK_DSN"] == "dbname=somewhere"
        assert os.environ["CONDOR_CONFIG"] == str(tmp_path / "pool/condor/condor_config")
    assert dict(os.environ) == before
