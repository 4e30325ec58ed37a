"""JSON for hooks, without the ten milliseconds of importing ``json``."""

from _json import encode_basestring_ascii


def to_json(value: object) -> str:
    """The JSON of dicts with strings as keys, lists, tuples, strings, numbers, truths and None."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(str(name))}:{to_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_json, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no JSON")


class _Context:
    """The options that the scanner behind ``json`` reads."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012


def from_json(text: str) -> object:
    """The value of a JSON text; raises ValueError if the text is no JSON."""
    try:
        from _json import make_scanner

        scan = make_scanner(_Context())  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):
        # another Python's scanner may need more options
        import json

        return json.loads(text)
    try:
        value, end = scan(text, 0)
    except StopIteration:
        raise ValueError("no JSON") from None
    if text[end:].strip():
        raise ValueError("more than one JSON value")
    return value
