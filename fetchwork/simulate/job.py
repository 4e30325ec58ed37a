"""The virtual job that a job ad describes.

An ordinary ``/bin/sleep N`` takes N seconds and ends with 0. Attributes that a submitter may add say more:

    SimulatedSeconds      how long the job takes
    SimulatedExitCode     what it ends with (default 0)
    SimulatedExitSignal   the signal that it dies of
    SimulatedFailure      "silence": the starter gives up without a hook, as for an unknown account;
                          "exec": the job can't be executed
"""

from dataclasses import dataclass

from fetchwork.simulate.behaviour import Behaviour
from fetchwork.simulate.textad import TextAd

_UNIVERSES = (5, 12)


@dataclass(frozen=True)
class VirtualJob:
    """One job as its starter sees it."""

    name: str
    run_id: int
    seconds: float
    exit_code: int
    exit_signal: int | None
    #: the starter exits before it calls a hook
    silent: bool
    #: Create_Process fails, or the opening of a file before it
    cannot_exec: bool
    lease_s: float | None

    @classmethod
    def read(cls, ad: TextAd, behaviour: Behaviour) -> "VirtualJob":
        """The job as a starter of that version reads it from an ad."""
        failure = ad.text("SimulatedFailure")
        universe = ad.number("JobUniverse")
        silent = (
            failure == "silence"
            or ad.text("Cmd") is None
            or not any(ad.text(name) not in (None, "root") for name in behaviour.user_attributes)
            or (universe is not None and universe not in _UNIVERSES)
        )
        signal = ad.number("SimulatedExitSignal")
        cluster, proc = ad.number("ClusterId"), ad.number("ProcId")
        return cls(
            name=f"{int(cluster or 0)}.{int(proc or 0)}",
            run_id=int(ad.number("FetchWorkRunId") or 0),
            seconds=_seconds(ad),
            exit_code=int(ad.number("SimulatedExitCode") or 0),
            exit_signal=int(signal) if signal else None,
            silent=silent,
            cannot_exec=failure == "exec",
            lease_s=ad.number("JobLeaseDuration"),
        )


def _seconds(ad: TextAd) -> float:
    seconds = ad.number("SimulatedSeconds")
    if seconds is not None:
        return seconds
    if (ad.text("Cmd") or "").endswith("/sleep"):
        try:
            return float(ad.text("Arguments") or ad.text("Args") or "0")
        except ValueError:
            return 0.0
    return 0.0
