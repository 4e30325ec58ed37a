"""Jobs that save checkpoints, and wait where a test wants it."""

from typing import Any

from tests.condor.file_jobs import FileJobs
from tests.support.by_name import scalar
from tests.support.waiting import until

SAVES: dict[str, Any] = {"WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85}
#: saves once, and then waits for "go"
SAVE_AND_WAIT = """\
if [ ! -f state ]; then
    echo first; echo 1 > state; echo x > other; mkdir -p d; echo deep > d/in; exit 85
fi
echo "again with $(cat state)"
{meanwhile}
echo running > {mark}
until [ -f {go} ]; do sleep 0.05; done
"""


class Waiting:
    """A job that has saved once and waits, with the files that control it."""

    def __init__(
        self,
        jobs: FileJobs,
        name: str,
        meanwhile: str = ":",
        inputs: dict[str, bytes | str | None] | None = None,
        **ad: Any,
    ) -> None:
        directory = jobs.pool.directory / "tmp"
        self.go = directory / f"{name}.go"
        self.mark = directory / f"{name}.mark"
        for path in (self.go, self.mark):
            path.unlink(missing_ok=True)
        script = SAVE_AND_WAIT.format(go=self.go, mark=self.mark, meanwhile=meanwhile)
        self._jobs = jobs
        self.job = jobs.submit(script, inputs, **{**SAVES, **ad})
        self.until_running()

    def until_running(self) -> None:
        """Wait until an execution after the first runs."""
        until(self.mark.exists, "the second execution")
        self.mark.unlink()

    def vacate(self) -> None:
        """Vacate it, and wait until its next execution runs."""
        scalar(self._jobs.database, "vacate", jobs=[self.job])
        self.until_running()

    def end(self) -> list[str]:
        """Let it end; return the lines that it has printed."""
        self.go.touch()
        self._jobs.completed(self.job)
        return lines(self._jobs.outputs(self.job))


def lines(outputs: dict[str, bytes | str | None], name: str = "_condor_stdout") -> list[str]:
    data = outputs[name]
    assert isinstance(data, bytes)
    return data.decode().splitlines()
