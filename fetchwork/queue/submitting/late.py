"""Late materialization: a submit description becomes one template, of which the database makes the jobs.

HTCondor's own code reads the description once, with marks in place of ``$(Process)``, ``$(Step)``,
``$(ItemIndex)`` and the variables of the queue statement: the attributes that have a mark differ from job to
job. Then it makes some jobs as it makes those of any cluster, and these must be the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fetchwork.classad import bindings
from fetchwork.errors import SubmitError
from fetchwork.queue.reading.views import Json
from fetchwork.queue.submitting import readers
from fetchwork.queue.submitting.jobads import PLAN, Jobs
from fetchwork.queue.submitting.statements import Statement, assignments

#: the commands that make a cluster late; the last two are one
LIMIT = "max_materialize"
IDLE = ("max_idle", "materialize_max_idle")
#: the attribute of each item (add_items.sql)
ITEM = "FetchWorkItem"
#: most jobs of one cluster
MOST = 999_999_999

#: the macros of each job, in the order of the template's arguments
_OF_JOB = (("process", "procid"), ("step",), ("itemindex", "row"))
#: attributes by which the commands' numbers are read
_COUNT, _MOST, _IDLE = "LateCount", "LateMost", "LateIdle"
#: the words before the items of a queue statement, with what is before them and a slice behind them
_ITEMS = re.compile(
    r"^(.*?)(?:^|\s)(?:in|from|matching(?:\s+(?:files|dirs|any))?)\b\s*(\[[^\]]*\])?", re.I | re.S
)
#: a count: a number, a macro, an expression in parentheses
_IS_COUNT = re.compile(r"\d\S*|\$\S+|\(.*?\)(?=\s|$)")
#: a function of macros, with its arguments
_FUNCTION = re.compile(r"(?<!\$)\$([A-Za-z]\w*)\(((?:[^()]|\([^()]*\))*)\)")
#: characters that HTCondor may read as more than text
_SPECIAL = re.compile(r"[^A-Za-z0-9_./:+@%-]")
_QUOTED = re.compile(r"[\"'\\$\x00-\x1f\x7f]|\s\s|^\s|\s$")
#: most items with such characters that are compared, each by itself
_MOST_QUOTED = 10_000

#: whole ads of the jobs of a statement: that of the first, and the differing attributes of the others
Read = Callable[[Statement], tuple[Json, Iterator[Json]]]


@dataclass(frozen=True)
class _Macros:
    """The macros that differ from job to job, with the mark of each."""

    marks: list[str]
    by_name: dict[str, str]

    @classmethod
    def of(cls, variables: Sequence[str], commands: str) -> _Macros:
        # a word that the commands do not have: they decide it
        word = f"Late{hashlib.sha256(commands.encode()).hexdigest()[:12]}"
        names = [*_OF_JOB, *((variable.lower(),) for variable in variables)]
        marks = [f"{word}x{number}x" for number in range(len(names))]
        return cls(marks, {name: mark for mark, of in zip(marks, names, strict=True) for name in of})

    def marked(self, commands: str) -> str:
        """The commands with marks for these macros; raises SubmitError if that can't be."""

        def mark(macro: re.Match[str]) -> str:
            return self.by_name.get(macro[1].lower(), macro[0])

        marked = re.sub(r"(?<!\$)\$\(\s*([A-Za-z_]\w*)\s*(?::[^()]*)?\)", mark, commands)
        self._refuse_others(marked)
        return marked

    def _refuse_others(self, marked: str) -> None:
        # a macro that has a mark, or names one that has
        differing = dict.fromkeys(self.by_name, "")
        values = dict(re.findall(r"^\s*([+\w.]+)\s*=(.*)$", marked, re.M))
        for _ in values:
            more = {
                name.lower(): value
                for name, value in values.items()
                if name.lower() not in differing and self._differs(value, differing)
            }
            if not more:
                break
            differing.update(more)
        for macro in _FUNCTION.finditer(marked):
            if macro[1].upper().startswith("RANDOM_") or self._differs(macro[2], differing, words=True):
                raise _refusal(f"macro '{self._named(macro[0])}'", "it is another for each job")
        for line in marked.splitlines():
            if re.match(r"\s*(?:if|elif)\b", line, re.I) and self._differs(line, differing, words=True):
                raise _refusal(f"condition '{self._named(line.strip())}'", "it is another for each job")

    def _differs(self, text: str, differing: Iterable[str], *, words: bool = False) -> bool:
        if any(mark in text for mark in self.marks):
            return True
        found = r"\w+" if words else r"(?<!\$)\$\(\s*(\w+)"
        return not {word.lower() for word in re.findall(found, text)}.isdisjoint(differing)

    def _named(self, text: str) -> str:
        """The text as it was written, near enough for a message."""
        for name, mark in self.by_name.items():
            text = text.replace(mark, f"$({name})")
        return text[:60]


@dataclass(frozen=True)
class _Queue:
    """A queue statement."""

    count: str
    variables: list[str]
    items: list[list[str]] = field(repr=False)

    @classmethod
    def of(cls, statement: Statement) -> _Queue:
        arguments = statement.queue.strip()[len("queue") :].strip()
        if (match := _ITEMS.match(arguments)) is None:
            return cls(arguments or "1", [], [])
        before = match[1].strip()
        count = _IS_COUNT.match(before)
        # the bindings know no slices of files
        whole = arguments.replace(match[2], "", 1) if match[2] else arguments
        try:
            described = bindings.Submit(f"{statement.commands}\nqueue {whole}\n")
            items: list[Any] = list(described.itemdata() or ())
        except ValueError as error:
            raise SubmitError(f"queue statement of line {statement.line}: {error}") from None
        if match[2]:
            items = items[_slice(match[2])]
        variables = re.findall(r"\w+", before[count.end() :] if count else before) or ["Item"]
        rows = [[str(item.get(variable, "")) for variable in variables] for item in items]
        return cls(count[0] if count else "1", variables, rows)


def _slice(text: str) -> slice:
    parts = [int(part) if part.strip() else None for part in text[1:-1].split(":")]
    return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)


def is_late(statement: Statement) -> bool:
    """Whether the description has a command of late materialization."""
    if not re.search(r"max_materialize|max_idle|include", statement.commands, re.I):
        return False
    try:
        commands = bindings.Submit(f"{statement.commands}\nqueue\n")
    except readers.Refusal:
        # the reader of jobs tells why
        return False
    return any(commands.get(name, "").strip() for name in (LIMIT, *IDLE))


def jobs(statement: Statement, read: Read) -> Jobs:
    """The template of a late cluster and the items of its queue statement.

    ``read`` has HTCondor's code make the jobs of a statement. Raises SubmitError, also for a macro that is
    another for each job and is not in the template.
    """
    queue = _Queue.of(statement)
    macros = _Macros.of(queue.variables, statement.commands)
    first, _ = read(
        Statement(_with_numbers(macros.marked(statement.commands), statement, queue), "queue", statement.line)
    )
    count, limit, idle = (_number(first.pop(name, None), name) for name in (_COUNT, _MOST, _IDLE))
    template: Json = {}
    for name in list(first):
        if any(mark in json.dumps(first[name]) for mark in macros.marks):
            template[name] = first.pop(name)
    if queue.variables and not queue.items:
        raise SubmitError("queue statement makes no jobs; allowed: one or more")
    step = count if count is not None else 1
    number = step * (len(queue.items) if queue.variables else 1)
    if not 1 <= number <= MOST:
        raise SubmitError(f"queue statement makes {number} jobs; allowed: 1 to {MOST}")
    plan: Json = {
        "jobs": number,
        "step": step,
        "template": template,
        "marks": macros.marks,
        # as in HTCondor: a max_materialize of 0 and a negative max_idle are no limits
        "limit": limit if limit and limit > 0 else None,
        "idle": idle if idle is not None and idle >= 0 else None,
    }
    _compare(statement, queue, first, plan, read)
    rows: Iterable[Json] = ({ITEM: item} for item in queue.items) if queue.variables else [{}]
    return Jobs({**first, PLAN: plan}, rows)


def _with_numbers(marked: str, statement: Statement, queue: _Queue) -> str:
    described = bindings.Submit(f"{statement.commands}\nqueue\n")
    idle = next((text for name in IDLE if (text := described.get(name, "").strip())), "")
    named = ((_COUNT, queue.count), (_MOST, described.get(LIMIT, "").strip()), (_IDLE, idle))
    return "\n".join([_plain(marked), *(f"MY.{name} = {text}" for name, text in named if text)])


def _plain(commands: str) -> str:
    """The commands without those that make a cluster late."""
    return "\n".join([commands, *(f"{name} =" for name, _ in assignments(commands) if _makes_late(name))])


def _makes_late(name: str) -> bool:
    return name.lower() in (LIMIT, *IDLE)


def _number(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    command = {_COUNT: "the count of queue", _MOST: f"command '{LIMIT}'", _IDLE: f"command '{IDLE[0]}'"}[name]
    raise SubmitError(f"{command} is {str(value)[:60]}; allowed: an integer")


def part(plan: Json, number: int, item: Sequence[str]) -> Json:
    """The attributes of a job that others have otherwise, as the database makes them (factory_parts.sql)."""
    step = plan["step"]
    values = [str(number), str(number % step), str(number // step), *item]
    made = json.dumps(plan["template"])
    for mark, value in zip(plan["marks"], values, strict=True):
        made = made.replace(f'"/Expr({mark})/"', _value(value)).replace(mark, json.dumps(value)[1:-1])
    found: Json = json.loads(made)
    return found


def _value(item: str) -> str:
    if re.fullmatch(r'-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,15})?|"[^"\\\x00-\x1f\x7f]*"', item):
        return item
    return item.lower() if item.lower() in ("true", "false") else json.dumps(f"/Expr({item})/")


def _compare(statement: Statement, queue: _Queue, common: Json, plan: Json, read: Read) -> None:
    """Raise SubmitError if the jobs of the template are not those that HTCondor makes of the description."""
    alone = {**plan, "step": 1}
    rows = list(_samples(queue.items))
    if queue.variables:
        lines = ("\x1f".join(row) for row in rows)
        text = "\n".join([f"queue {','.join(queue.variables)} from (", *lines, ")"])
    else:
        rows = [list[str]()] * min(2, plan["jobs"])
        text = f"queue {len(rows)}"
        alone = {**plan, "step": len(rows)}
    first, others = read(Statement(_plain(statement.commands), text, statement.line))
    made = [first, *({**first, **own} for own in others)]
    if len(made) != len(rows):
        raise _refusal("an item of the queue statement", "HTCondor reads it in another way by itself")
    for number, (row, ad) in enumerate(zip(rows, made, strict=True)):
        ours = {**common, **part(alone, number, row)}
        # the defaults of requests have been given their numbers in the first ad
        settled = {"RequestDisk", "RequestMemory"} - plan["template"].keys() if number else set()
        for name in sorted((ours.keys() | ad.keys()) - settled):
            if ours.get(name) != ad.get(name):
                raise _refusal(
                    f"attribute '{name}' of job {row or number}",
                    f"it would be {str(ours.get(name))[:60]}, and not {str(ad.get(name))[:60]}",
                )


def _samples(items: Sequence[list[str]]) -> Iterator[list[str]]:
    """The items to compare: the first, the last, one of each type of their texts, and all with quotes."""
    seen: set[tuple[object, ...]] = set()
    quoted = 0
    for number, item in enumerate(items):
        types = (frozenset("".join(_SPECIAL.findall("".join(item)))), *map(_type, item))
        if any(map(_QUOTED.search, item)):
            quoted += 1
            if quoted > _MOST_QUOTED:
                raise _refusal("items with quotes", f"there are more than {_MOST_QUOTED} of them")
            yield item
        elif number in (0, len(items) - 1) or types not in seen:
            yield item
        seen.add(types)


def _type(value: str) -> type:
    """The type of an item's value; a number with a unit is a text, and may be another number for HTCondor."""
    return type(json.loads(_value(value))) if not value.startswith('"') else str


def _refusal(what: str, why: str) -> SubmitError:
    return SubmitError(
        f"{what} can't be had in a late cluster: {why}; allowed: $(Process), $(Step), $(Item) and the"
        " variables of the queue statement in values, or a cluster without max_materialize and max_idle"
    )
