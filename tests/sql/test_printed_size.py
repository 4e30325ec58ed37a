"""The printed size that submit computes is never less than the size that FETCH_WORK prints."""

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from fetchwork.classad.ads import print_old
from fetchwork.classad.jsonform import from_json
from fetchwork.errors import ClassAdError

# the attributes that fetchwork adds to the ad of a run
ADDED = 700

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40) | st.text(
    st.sampled_from('"\\\n\x01\x7f\x85\u2028ü😀a '), max_size=40
)
expressions = st.sampled_from(
    [
        "/Expr(a+b*c-d/e)/",
        "/Expr(a||b&&!c)/",
        "/Expr(a?b:c)/",
        "/Expr(f(a,b,{c,d}))/",
        '/Expr(Name=="ü"&&x!="日本")/',
        '/Expr(strcat("a\\nü",b))/',
        "/Expr(/Expr(x)/)/",
    ]
)
values = st.recursive(
    texts
    | expressions
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", ["A", "SomeLongAttributeName"])
def test_it_is_an_upper_bound(connection: psycopg.Connection, name: str) -> None:
    @settings(
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(values)
    def holds(value: Any) -> None:
        try:
            ad = from_json({name: value})
        except ClassAdError:
            return
        [(bound,)] = connection.execute(
            "SELECT fetchwork.printed_size(%s)", [Jsonb({name: value})]
        ).fetchall()
        assert len(print_old(ad).encode()) <= bound - ADDED

    holds()
