"""A request's failure: a status, and a sentence for the client (RFC 9457)."""

from __future__ import annotations

from dataclasses import dataclass

from fetchwork.errors import (
    ClassAdError,
    DatabaseRefused,
    DatabaseUnavailable,
    FetchworkError,
    InsufficientPrivilege,
    JobStateConflict,
    NotFound,
    SchemaMismatch,
    SubmitError,
    one_line,
)

#: an exception of fetchwork -> its HTTP status; the first that fits counts
_STATUSES: tuple[tuple[type[Exception], int, str], ...] = (
    (NotFound, 404, "not found"),
    (InsufficientPrivilege, 403, "not allowed"),
    (JobStateConflict, 409, "in no state for that"),
    (SubmitError, 422, "refused"),
    (DatabaseRefused, 422, "refused"),
    (ClassAdError, 400, "bad request"),
    (SchemaMismatch, 503, "database has another schema"),
    (DatabaseUnavailable, 503, "database does not answer"),
    (FetchworkError, 500, "failed"),
    (ValueError, 400, "bad request"),
    (TypeError, 400, "bad request"),
)


@dataclass
class Problem(Exception):
    """A request that cannot be answered; ``detail`` says the error and the allowed values."""

    status: int
    title: str
    detail: str

    def __reduce__(self) -> tuple[type[Problem], tuple[int, str, str]]:
        return Problem, (self.status, self.title, self.detail)

    def to_json(self) -> dict[str, object]:
        """The body of the answer, as ``application/problem+json``."""
        return {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}


def problem_of(error: Exception) -> Problem:
    """The HTTP problem of an exception; raises it again if it is a defect of ours."""
    for error_type, status, title in _STATUSES:
        if isinstance(error, error_type):
            return Problem(status, title, one_line(str(error)))
    raise error
