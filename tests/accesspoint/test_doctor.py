"""The report of ``fetchwork doctor`` on an access point."""

import pytest

from fetchwork.doctor import agent
from tests.accesspoint.point import AccessPoint


def test_one_that_answers_is_fine_and_one_that_does_not_is_a_warning(
    point: AccessPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", str(point.socket))
    (line,) = agent.check_access_point()
    assert line.verdict == "ok"
    assert line.text.startswith(f"answers at '{point.socket}'") and line.text.endswith("serves everybody")
    point.kill()
    (line,) = agent.check_access_point()
    assert (line.verdict, line.subject) == ("warn", "access point")
    assert "no access point answers" in line.text
    monkeypatch.setenv("FETCHWORK_ACCESS_POINT", "none")
    assert list(agent.check_access_point()) == []
