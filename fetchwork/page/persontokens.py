"""Signs people in by tokens of their own (``fetchwork token create``).

The database knows each token by its hash, and is asked at each request, over connections of its own: so a
token that was revoked is refused at once, and guesses delay no question of others. The clients of one address
are asked about one after the other. Each transaction of a question checks the token again (``acting``).
"""

from __future__ import annotations

import asyncio
from collections import Counter

from fetchwork.db.calls import tokens
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import DatabaseRefused, FetchworkError, one_line
from fetchwork.page.acting import Person
from fetchwork.page.problem import Problem, problem_of

CONNECTIONS = 2
CALL_S = 5.0
#: sign-ins that wait at once, of one address
MOST_EACH = 100
_LONGEST = 100


class PersonTokens:
    """Knows people by their tokens; ``may_write``: the service lets people change jobs."""

    def __init__(self, conninfo: str, *, may_write: bool) -> None:
        self._database = AsyncDatabase(
            conninfo, size=CONNECTIONS, application_name="fetchwork page sign-in", timeout_s=CALL_S
        )
        self._may_write = may_write
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def person(self, token: str, address: str) -> Person:
        """The person with this token, who asks from this address; raises Problem 401 if it counts no more."""
        if len(token) > _LONGEST:
            raise Problem(401, "not signed in", "the token is not known here")
        if self._waiting[address] >= MOST_EACH:
            raise Problem(429, "too many requests", f"{MOST_EACH} sign-ins of your address wait")
        digest = tokens.digest_of(token)
        self._waiting[address] += 1
        try:
            async with self._turns.setdefault(address, asyncio.Lock()):
                rights = await self._database.run(tokens.act_by_token(digest=digest, writes=False))
        except DatabaseRefused as error:
            raise Problem(401, "not signed in", one_line(str(error))) from None
        except FetchworkError as error:
            raise problem_of(error) from None
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address]
                self._turns.pop(address, None)
        return Person(rights.owner, rights.owner, self._may_write and not rights.read_only, digest)


def is_person_token(text: str) -> bool:
    """Whether a text has the form of a person's token, which the service's own has not."""
    return text.startswith(tokens.PREFIX)
