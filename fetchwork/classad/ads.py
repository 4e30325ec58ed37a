"""ClassAds as text: the old syntax that hooks read and print, and expressions in new syntax.

Theory of operation
-------------------
Three forms of an ad exist here.

Hooks read and print *old syntax*: one ``Name = expression`` a line. In it a backslash is an
ordinary character unless a double quote follows (lexer.cpp, ``tokenizeStringOld``), so ``"a\\nb"`` is four
characters and a string with a line break has no literal at all. ``printOld()`` prints the break as it is,
which ends the ad, or forges an attribute. So ``print_old`` prints a value without a one-line literal
as a call of HTCondor's own function ``eval``. The new-syntax reader reads its argument, and knows escapes::

    Arguments = eval("\\"-c 'echo one\\necho two'\\"")

Every HTCondor daemon evaluates an attribute when it looks one up, so it gets the line break; and
``parse_old`` turns exactly that form back into the original string, list or ad.

Expressions are kept in *new syntax* (``[ a = 1; b = "x\\ny" ]``): it can express everything but NUL.

*HTCondor's JSON form* is in ``jsonform``.

The reader's input is bounded (``bounds``).
"""

from __future__ import annotations

import math
import re
import secrets

import classad2

from fetchwork.classad.bounds import (
    MAX_TEXT,
    NEW_STRING,
    OCTAL,
    OLD_STRING,
    as_read_now,
    check_bounds,
    check_conditions,
    check_expression,
    check_numbers,
    check_strings,
    shorten,
    without_new_strings,
)
from fetchwork.classad.exprform import expr_text
from fetchwork.classad.values import PROBLEMS, ClassAd, ExprTree
from fetchwork.errors import ClassAdError, one_line

__all__ = [
    "is_name",
    "old_text",
    "parse_expr",
    "parse_old",
    "plain_text",
    "print_old",
    "print_real",
    "quote",
    "read_old",
    "split_ads",
]

# HTCondor's private attributes (classad_oldnew.cpp): they grant rights, so they are left out here
_PRIVATE = (
    "Capability",
    "ChildClaimIds",
    "ClaimId",
    "ClaimIdList",
    "ClaimIds",
    "PairedClaimId",
    "TransferKey",
)
_PRIVATE_PREFIX = "_condor_priv"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN_NAME = re.compile(r"(?!(?:error|false|is|isnt|parent|true|undefined)\Z)[A-Za-z_][A-Za-z0-9_]*\Z", re.I)
# characters that a plain literal can't have: all that some reader takes for the end of a line, and the other
# control characters but tab
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029]")
_ESCAPED = re.compile('[\x01-\x1f\x7f\x85\u2028\u2029"\\\\]')
_SIMPLE_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
_EVAL = re.compile(r'eval\(("(?:[^"\\]|\\.)*")\)')
_SEPARATOR = re.compile(r"^-----\r?(?:\n|\Z)", re.MULTILINE)

# names that no text can know: so a text can't close the ad around it and go on with attributes of its own
_VALUE = "v" + secrets.token_hex(12)
_GUARD = "g" + secrets.token_hex(12)


# -- reading text ---------------------------------------------------------------------------------------


def parse_old(text: str | bytes, *, strict: bool = False) -> ClassAd:
    """Return the ad of ``Name = expression`` lines.

    Bytes that are not UTF-8 become U+FFFD. HTCondor's private attributes (ClaimId and its kin) are left
    out. ``strict`` is for text that people write: it also refuses mistakes that HTCondor ignores silently,
    an attribute given twice and words after the end of an expression.
    """
    body = as_read_now(_decode(text).strip("\r\n"), old=True)
    lines = body.split("\n")
    if lines == [""]:
        return ClassAd()
    check_bounds(lines, body)
    if strict:
        _check_strictly(lines)
    try:
        ad = classad2.parseNext(body, classad2.ParserType.Old)
    except ValueError:
        ad = None
    # the binding stops at the first line it can't read, and mostly says nothing
    if ad is None or len(ad) != len(lines):
        ad = _parse_by_line(lines)
    if 'eval("' in body:
        _decode_evals(ad)
    for name in _PRIVATE:
        ad.pop(name, None)
    if _PRIVATE_PREFIX in body.lower():
        for name in [name for name in ad if name.lower().startswith(_PRIVATE_PREFIX)]:
            ad.pop(name)
    return ad


def split_ads(text: str | bytes) -> tuple[ClassAd, ClassAd]:
    """Return the job ad and the slot ad of REPLY_FETCH's and EVICT_CLAIM's stdin.

    Between them is a line ``-----``. No value can be taken for it, since values have no line breaks.
    """
    parts = _SEPARATOR.split(_decode(text), maxsplit=1)
    if len(parts) != 2:
        raise ClassAdError("no line '-----' between the job ad and the slot ad")
    return parse_old(parts[0]), parse_old(parts[1])


def parse_expr(text: str, *, only_here: bool = False) -> ExprTree:
    """Return the expression in ``text``, which is in new syntax as within ``/Expr(...)/``.

    ``only_here``: as of ``check_expression``.
    """
    if "\0" in text:
        raise ClassAdError("an expression can't hold a NUL character")
    text = as_read_now(text)
    check_expression(text, without_new_strings, only_here=only_here)
    bare = NEW_STRING.sub('""', text)
    check_numbers(bare)
    try:
        # read as the first of two attributes, because the reader alone may stop before the end of a text
        ad = ClassAd(f"[{_VALUE} = {text}\n; {_GUARD} = true]")
    except PROBLEMS:
        ad = None
    # by names: the bindings can't show a value that is not UTF-8
    if ad is None or set(ad) != {_VALUE, _GUARD}:
        raise ClassAdError(f"not a ClassAd expression: {shorten(text)}")
    tree = ad.lookup(_VALUE)
    if "?" in bare:
        check_conditions(bare, repr(tree))
    if OCTAL.search(text):
        check_strings(repr(tree))
    return tree


def read_old(text: str) -> str | ExprTree:
    """Read a text of ``old_text``: return a string, or the expression of another value; else ClassAdError."""
    if OLD_STRING.fullmatch(text):
        return text[1:-1].replace('\\"', '"')
    return parse_old(f"{_VALUE} = {text}", strict=True).lookup(_VALUE)


def _decode(text: str | bytes) -> str:
    if len(text) > MAX_TEXT:
        raise ClassAdError(f"ad of {len(text)} bytes is larger than {MAX_TEXT} bytes")
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    elif not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ClassAdError(f"line {line} of the ad holds a NUL character")
    return text


def _parse_by_line(lines: list[str]) -> ClassAd:
    # HTCondor merges two ads that follow each other, which is of no use: a blank line is an error here
    ad = ClassAd()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        parsed = None
        if line.strip():
            try:
                parsed = classad2.parseNext(line, classad2.ParserType.Old)
            except ValueError:
                parsed = None
        if parsed is None or len(parsed) != 1:
            raise ClassAdError(f"line {number} of the ad is not 'attribute = expression': {_subject(line)}")
        ad.update({name: parsed.lookup(name) for name in parsed})
    return ad


def _check_strictly(lines: list[str]) -> None:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not _NAME.match(name):
            raise ClassAdError(f"line {number} of the ad is not 'attribute = expression': {_subject(line)}")
        first = seen.setdefault(name.lower(), number)
        if first != number:
            raise ClassAdError(f"attribute '{name}' is given on line {first} and again on line {number}")
        if OLD_STRING.fullmatch(value):
            continue
        bare = OLD_STRING.sub('""', value)
        check_numbers(bare)
        ad = None
        if "\\" not in value or not value.endswith('\\"'):
            ad = classad2.parseNext(f"x = [{_VALUE} = {value} ; {_GUARD} = true]", classad2.ParserType.Old)
        inner = ad["x"] if ad is not None and len(ad) == 1 else None
        if not isinstance(inner, ClassAd) or len(inner) != 2 or _VALUE not in inner or _GUARD not in inner:
            raise ClassAdError(f"line {number} of the ad: value of '{name}' is not a ClassAd expression")
        check_conditions(bare, repr(inner.lookup(_VALUE)))


def _subject(line: str) -> str:
    """Return the part of a bad line that may be shown: a value may be a secret, a name is not."""
    name, equals, _ = line.partition("=")
    return f"'{one_line(name.strip(), 40)} = ...'" if equals else shorten(line.strip() or "(blank)")


# -- printing text --------------------------------------------------------------------------------------


def print_old(ad: ClassAd) -> str:
    """Return the ad as ``Name = expression`` lines, sorted by name, each ended by a newline.

    For all values there is exactly one line per attribute, and HTCondor as well as ``parse_old`` reads
    the same values back from it (reals inside expressions to the 16 digits that HTCondor prints).
    Raises ClassAdError for a name that HTCondor can't read at the start of a line.
    """
    lines = []
    for name in sorted(ad, key=str.lower):
        if not _NAME.match(name):
            raise ClassAdError(f"attribute name {shorten(name)}: only letters, digits and _ are allowed")
        value, tree = ad[name], ad.lookup(name)
        text = _one_line(value, tree)
        if text is None:
            text = 'eval("' + _print(value, tree, _NEW).replace('"', '\\"') + '")'
        lines.append(f"{name} = {text}\n")
    return "".join(lines)


def old_text(ad: ClassAd, name: str) -> str:
    """Return an attribute's value in old syntax, for people and for ``read_old``; it may have line breaks."""
    return _print(ad[name], ad.lookup(name), _OLD)


def is_name(name: str) -> bool:
    """Whether HTCondor can read an attribute of this name at the start of a line."""
    return _NAME.match(name) is not None


def plain_text(value: object) -> str | None:
    """Return ``print_old``'s text of a literal in JSON form; None for a value that only HTCondor can read."""
    if isinstance(value, str):
        if _UNPRINTABLE.search(value) or expr_text(value) is not None:
            return None
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
        return '"' + value.replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return print_real(value) if math.isfinite(value) else None
    return None


_OLD, _NEW = "old", "new"


def _one_line(value: object, tree: ExprTree) -> str | None:
    """Return the value in old syntax, or None if it has no one-line form there that reads back the same."""
    text = _print(value, tree, _OLD)
    if _UNPRINTABLE.search(text):
        return None
    if isinstance(value, bool | int | float | str) and not text.startswith("relTime"):
        # a backslash at the end is safe: a quote at the end of the line always ends the string
        return text
    new = repr(tree)
    back = classad2.parseNext(f"x = {text}", classad2.ParserType.Old)
    if back is None or len(back) != 1 or repr(back.lookup("x")) != new:
        return None
    # an expression of the job that ``parse_old`` would take for fetchwork's ``eval`` is wrapped once more
    return text if _inside_eval(new) is None else None


def _print(value: object, tree: ExprTree | None, syntax: str) -> str:
    """Return the value in old or new syntax; in old syntax it may fail to read back.

    HTCondor prints reals with 16 digits, though 17 are needed; so this module prints literals, and leaves
    only expressions and the rare types to HTCondor.
    """
    if type(value) is str:
        return quote(value) if syntax is _NEW else '"' + value.replace('"', '\\"') + '"'
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    if type(value) is ExprTree:
        tree = value
    elif tree is None or not re.search("(?:rel|abs)Time\\(", repr(tree)):
        # without a tree this is an item of a list without times, for which Python has no type
        if type(value) is float:
            return print_real(value)
        if type(value) is list:
            return "{ " + ",".join(_print(item, None, syntax) for item in value) + " }"
        if type(value) is ClassAd and all(_PLAIN_NAME.match(name) for name in value):
            items = (f"{name} = {_print(value[name], value.lookup(name), syntax)}" for name in value)
            return "[ " + "; ".join(items) + " ]"
        if tree is None:
            tree = _tree_of(value)
    if syntax is _NEW:
        return repr(tree)
    holder = ClassAd()
    holder["x"] = tree
    return str(holder.printOld()).removeprefix("x = ").removesuffix("\n")


def _tree_of(value: object) -> ExprTree:
    holder = ClassAd()
    holder["x"] = value
    return holder.lookup("x")


def _decode_evals(ad: ClassAd) -> None:
    for name in list(ad):
        inner = _inside_eval(repr(ad.lookup(name)))
        if inner is not None:
            ad[name] = inner


def _inside_eval(text: str) -> ExprTree | None:
    """Return the value that ``print_old`` has put into ``eval("...")``, or None for another expression.

    ``print_old`` does so only for values without a literal: a job's ``eval("1 + 2")`` stays an expression.
    """
    found = _EVAL.fullmatch(text)
    if not found:
        return None
    try:
        argument = ExprTree(found[1]).eval()
        tree = parse_expr(argument)
    except (ClassAdError, UnicodeDecodeError):
        return None
    holder = ClassAd()
    holder["x"] = tree
    value = holder["x"]
    if _print(value, tree, _NEW) != argument or _one_line(value, tree) is not None:
        return None
    return tree


def quote(text: str) -> str:
    """Return a string literal of new syntax, on one line, for use inside an expression."""
    if "\0" in text:
        raise ClassAdError("a string can't hold a NUL character")
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    return _SIMPLE_ESCAPES.get(char) or "".join(f"\\{byte:03o}" for byte in char.encode("utf-8"))


def print_real(value: float) -> str:
    """Return a real number in old syntax."""
    if math.isnan(value):
        return 'real("NaN")'
    if math.isinf(value):
        return 'real("INF")' if value > 0 else 'real("-INF")'
    # the shortest digits that read back as the same number; HTCondor's own %.16G loses the seventeenth
    return repr(value).upper()
