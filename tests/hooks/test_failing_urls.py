"""An input URL that cannot be fetched: PREPARE_JOB reports it, with the code of HTCondor's hold."""

import json
from pathlib import Path

import pytest

from fetchwork.hook.wire import Reply

from .conftest import Hooks
from .test_small_files import answering

STARTS = b"""\
Cmd = "/bin/true"
FetchWorkRunId = 7
FetchWorkSandbox = true
FetchWorkToken = "6f0c0fd6-8ba1-4b0e-8a7b-4d7a1a8f7a55"
"""
#: as curl_plugin prints it
PLUGIN = """#!/bin/sh
echo noise >&2
printf '[ TransferUrl = "%s"; TransferSuccess = false; TransferError = "No file"; X = [ Y = 1 ] ]' \\
    "$(sed 's/.*Url = "\\([^"]*\\)".*/\\1/' "$2")" > "$4"
exit 1
"""


@pytest.mark.parametrize("url", ["file:///no/such/file", "toy://host/x"])
def test_the_job_is_held_for_its_inputs_with_the_plugin_s_code(hooks: Hooks, url: str) -> None:
    sandbox = hooks.home / "dir_1"
    sandbox.mkdir()
    plugin = hooks.home / "curl_plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    plan = {
        "ad": {"TransferInput": url},
        "files": [{"name": "x", "mode": 420, "direction": "input", "source": "url", "url": url}],
        "executable": False,
        "plugins": {scheme: [str(plugin), True] for scheme in ("file", "toy")},
        "plugin_limit_s": 60,
        "has_key": False,
    }
    replies = {
        "prepare_job": Reply(),
        "input_plan": Reply(json.dumps(plan).encode()),
        "input_failed": Reply(),
    }
    started = hooks.agent(answering(replies))
    done = hooks.run("prepare_job", stdin=STARTS, cwd=sandbox)
    assert done.returncode == 1
    assert [one.name for one in started.requests[-2:]] == ["input_plan", "input_failed"]
    code, subcode, reason = started.requests[-1].arg.split(" ", 2)
    assert (code, subcode) == ("13", "256"), reason
    assert f"Details: No file ( URL file = {url} )" in reason
    assert list(Path(sandbox).iterdir()) == []
