"""The API under requests that schemathesis makes from its own description: no defect, no surprise."""

from typing import Any

import hypothesis
import pytest

from fetchwork.page.api import Api
from fetchwork.page.application import application
from fetchwork.page.signin import SignIn
from tests.page.conftest import TOKEN

schemathesis = pytest.importorskip(
    "schemathesis", reason="no schemathesis: pip install 'fetchwork[browser]'", exc_type=ImportError
)

pytestmark = [pytest.mark.all, pytest.mark.slow]


OPERATIONS = [
    (path, method)
    for path, operations in Api(None, SignIn()).application({}).openapi()["paths"].items()  # type: ignore[arg-type]
    for method in operations
]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_requests_of_every_form(
    conninfo: str, path: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # no waiting for events that do not come
    monkeypatch.setattr("fetchwork.page.api.MAX_WAIT_S", 0.1)
    app = application(conninfo, SignIn(token=TOKEN, may_write=True))
    described = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    operation = described[path][method]

    @hypothesis.settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        database=None,
        derandomize=True,
    )
    @hypothesis.given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        # no schema can describe which texts are expressions
        rule = schemathesis.specs.openapi.checks.positive_data_acceptance
        case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=[rule])

    ask()
