"""JSON for hooks equals that of ``json``, in every value."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchwork.sandbox.jsontext import from_json, to_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_is_what_json_reads_and_the_other_way_round(value: object) -> None:
    assert json.loads(to_json(value)) == value
    assert from_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nope", "1 2", '{"a": 1} x', '"\\x"'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        from_json(text)


def test_names_that_are_not_utf8_survive_and_what_is_no_json_is_not_written() -> None:
    assert from_json(to_json("\udcff")) == "\udcff"
    assert math.isclose(float(str(from_json(to_json(1.5e300)))), 1.5e300)
    with pytest.raises(TypeError, match="set is no JSON"):
        to_json({1})
