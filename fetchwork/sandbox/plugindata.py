"""A job's attributes for file transfer plugins: ``PluginData`` and ``SCHEME_PluginData``.

They are passed as by HTCondor 25 (InvokeMultipleFileTransferPlugin in file_transfer.cpp); 23.9 passes them to
no plugin. A plugin of protocol 4 gets them in ads of their own before those of the files, a plugin of
protocol 2 in the ad of each file. A plugin that moves a single file gets no ad.
"""

from collections.abc import Mapping

_ATTRIBUTE = "PluginData"
#: the marks around an expression in HTCondor's JSON form
_BEGIN, _END = "/Expr(", ")/"
_NEW_SYNTAX = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def lines_of(ad: Mapping[str, object], schemes: list[str], protocol: int) -> tuple[list[str], str]:
    """The ads that come before those of the files, and the text to add to the ad of each file."""
    said = {name.lower(): value for name, value in ad.items()}
    names = [("", _ATTRIBUTE), *((scheme, f"{scheme}_{_ATTRIBUTE}") for scheme in schemes)]
    parts = [
        (scheme, f"{name} = {text(said[name.lower()])}") for scheme, name in names if name.lower() in said
    ]
    if protocol == 4:
        return [
            f"[ Protocol = {quoted(scheme)}; {part} ]" if scheme else f"[ {part} ]" for scheme, part in parts
        ], ""
    if protocol == 2:
        return [], "".join(f"; {part}" for _, part in parts)
    return [], ""


def text(value: object) -> str:
    """A value of HTCondor's JSON form in new ClassAd syntax."""
    if isinstance(value, str):
        is_expression = value.startswith(_BEGIN) and value.endswith(_END)
        return value[len(_BEGIN) : -len(_END)] if is_expression else quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, Mapping):
        return "[ " + "; ".join(f"{_name(name)} = {text(inner)}" for name, inner in value.items()) + " ]"
    if isinstance(value, list):
        return "{ " + ", ".join(map(text, value)) + " }"
    return repr(value)


def quoted(text: str) -> str:
    """The text as a string literal in new ClassAd syntax."""
    return f'"{text.translate(_NEW_SYNTAX)}"'


def _name(name: str) -> str:
    """An attribute's name, in ClassAds' quotes if it is no identifier."""
    if name.isidentifier() and name.isascii():
        return name
    return "'" + name.translate(_NEW_SYNTAX).replace("'", "\\'") + "'"
