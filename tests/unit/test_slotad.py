"""The ad of the slot that a job starts on: from its fetch, or asked of the startd."""

import os
from pathlib import Path

import pytest

from fetchwork.handlers.host.slotad import SlotAds, SlotUnknown

FETCHED = (
    b'ClaimId = "secret"\nMachineResources = "GPUs"\nMyAddress = "<127.0.0.1:9?sock=x>"\n'
    b'Name = "slot1@h1"\n_condor_privX = "secret"\n'
)
CONFIG = """#!/bin/sh
echo x >> calls
printf '25.14.1\\037OMP_NUM_THREADS, X\\037\\037%s\\037A=/B//\\03710000\\n' "$PWD/address"
"""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for PATH, with condor_config_val."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tool(tmp_path, "condor_config_val", CONFIG.replace("calls", str(tmp_path / "calls")))
    return tmp_path


def tool(directory: Path, name: str, text: str) -> None:
    (directory / name).write_text(text)
    (directory / name).chmod(0o755)


async def test_a_slot_that_fetched_for_itself_has_told_its_ad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ad = await SlotAds().of("slot1@H1", FETCHED)
    assert b"secret" not in ad
    assert b'Name = "slot1@h1"\n' in ad


async def test_the_startd_is_asked_about_a_slot_that_was_made_for_the_job(tools: Path) -> None:
    tool(
        tools,
        "condor_status",
        "#!/bin/sh\nprintf '%s|' \"$@\" >&2\necho 'Name = \"slot1_2@h1\"'\necho\necho\n",
    )
    assert await SlotAds().of("slot1_2@h1", FETCHED) == b'Name = "slot1_2@h1"\n'
    tool(
        tools,
        "condor_status",
        '#!/bin/sh\n[ "$*" = "-direct <127.0.0.1:9?sock=x> -long -constraint Name == \\"slot1_2@h1\\"" ]'
        " && echo 'A = 1'\n",
    )
    assert await SlotAds().of("slot1_2@h1", FETCHED) == b"A = 1\n"


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("#!/bin/sh\n", "the startd has no slot"),
        ("#!/bin/sh\necho no luck >&2; exit 3\n", "failed: no luck"),
        (None, "is not on PATH"),
    ],
)
async def test_what_the_startd_does_not_say_is_not_guessed(
    tools: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, problem: str
) -> None:
    if program is None:
        monkeypatch.setenv("PATH", str(tools))
    else:
        tool(tools, "condor_status", program)
    with pytest.raises(SlotUnknown, match=problem):
        await SlotAds().of("slot1_2@h1", FETCHED)


async def test_the_configuration_is_read_once_in_a_while(tools: Path) -> None:
    ads = SlotAds()
    for _ in range(3):
        settings = await ads.settings(FETCHED)
    assert (tools / "calls").read_text() == "x\n"
    assert settings.version == (25, 14, 1)
    assert settings.threads == ("OMP_NUM_THREADS", "X")
    assert (settings.devices, settings.unassigned) == ({"GPUs": "A=/B//"}, {"GPUs": "10000"})
    assert settings.sets_nvidia
