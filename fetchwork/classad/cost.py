"""The limit of evaluations that an ad's attributes may cost."""

from __future__ import annotations

from fetchwork.classad.expression import names
from fetchwork.classad.values import ClassAd, ExprTree, format_expr
from fetchwork.errors import ClassAdError

#: evaluations that one attribute may cost: HTCondor evaluates an attribute anew at each reference
MAX_EVALUATIONS = 100_000


def check_cost(ad: ClassAd) -> None:
    """Refuse an ad that takes too long to evaluate: ``a = b + b``, ``b = c + c``, ... doubles each step."""
    words: dict[str, list[str]] = {}
    for name in ad:
        if isinstance(ad[name], ExprTree | list | ClassAd):
            words[name.lower()] = [*names(format_expr(ad.lookup(name)).lower())]
    costs: dict[str, int] = {}

    def cost(name: str, above: frozenset[str]) -> int:
        # HTCondor ends a circle as an error
        if name not in words or name in above:
            return 1
        if name not in costs:
            costs[name] = min(
                MAX_EVALUATIONS + 1, sum(cost(word, above | {name}) for word in words[name]) + 1
            )
        return costs[name]

    for name in words:
        try:
            expensive = cost(name, frozenset()) > MAX_EVALUATIONS
        except RecursionError:
            expensive = True
        if expensive:
            raise ClassAdError(
                f"attribute '{name}' takes more than {MAX_EVALUATIONS} evaluations; "
                "allowed: fewer references to attributes that refer to others"
            )
