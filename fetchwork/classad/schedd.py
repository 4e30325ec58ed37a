"""A schedd's queue, read by HTCondor's bindings with the configuration that they find."""

from __future__ import annotations

from typing import Any

from fetchwork.classad.ads import quote
from fetchwork.classad.bindings import Collector, DaemonType, HTCondorException, JobAction, Schedd
from fetchwork.classad.jsonform import to_json
from fetchwork.errors import FetchworkError


class ScheddUnavailable(FetchworkError):
    """A schedd can't be found, or does not answer, or refuses."""


class ScheddQueue:
    """The queue of the schedd ``name``, or of this host's schedd (None); raises ScheddUnavailable."""

    def __init__(self, name: str | None) -> None:
        self._name = name or "of this host"
        try:
            if name is None:
                self._schedd = Schedd()
            else:
                ad = Collector().locate(DaemonType.Schedd, name)
                self._schedd = Schedd(ad)
        except (HTCondorException, OSError, RuntimeError, ValueError) as error:
            raise self._unavailable(error) from None

    def jobs(self, constraint: str) -> list[dict[str, Any]]:
        """Return the ads of the jobs that match a constraint, in HTCondor's JSON form."""
        try:
            return [to_json(ad) for ad in self._schedd.query(constraint=constraint)]
        except (HTCondorException, OSError, RuntimeError, ValueError) as error:
            raise self._unavailable(error) from None

    def act(self, action: JobAction, constraint: str, reason: str) -> int:
        """Hold, release or remove the jobs that match a constraint; return the number of jobs that were.

        The schedd changes all of them in one transaction.
        """
        try:
            # the bindings drop a reason that has no subcode, which their types do not know
            done = self._schedd.act(action, constraint, reason=(reason, 0))  # type: ignore[arg-type]
        except (HTCondorException, OSError, RuntimeError, ValueError) as error:
            raise self._unavailable(error) from None
        return int(done["TotalSuccess"])

    def edit(self, constraint: str, name: str, value: str) -> None:
        """Set an attribute of the jobs that match a constraint to a string; there has to be such a job."""
        try:
            self._schedd.edit(constraint, name, quote(value))
        except (HTCondorException, OSError, RuntimeError, ValueError) as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: BaseException) -> ScheddUnavailable:
        text = " ".join(str(error).split()) or type(error).__name__
        return ScheddUnavailable(f"the schedd {self._name}: {text}")
