"""Reads the files of ads of ``condor_q -jobads`` and ``condor_history -file``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from fetchwork.classad.ads import parse_old
from fetchwork.classad.jsonform import to_json
from fetchwork.classad.values import ClassAd
from fetchwork.condor.printing.printedad import PrintedAd
from fetchwork.errors import ClassAdError

#: a line that ends an ad: an empty line, ``***``, ``...``, and the banner of condor_q before a schedd's jobs
_ENDS = re.compile(r"(?:\*\*\*|\.\.\.|-- |$)")


def read(text: str, form: str = "auto") -> Iterator[PrintedAd]:
    """Yield the ads of a text in one of HTCondor's forms. Raises ClassAdError if it can't."""
    if form == "auto":
        form = _form_of(text)
    if form == "long":
        yield from _long(text)
    elif form == "json":
        yield from _json(text)
    elif form == "xml":
        yield from (PrintedAd(ad) for ad in _xml(text))
    else:
        yield from _new(text)


def _form_of(text: str) -> str:
    start = text.lstrip()
    if start.startswith("<"):
        return "xml"
    if start.startswith("["):
        return "json" if re.match(r"\[\s*[{\]]", start) else "new"
    if start.startswith("{"):
        return "json" if re.match(r"\{\s*\"", start) else "new"
    return "long"


def _long(text: str) -> Iterator[PrintedAd]:
    lines: list[str] = []
    for line in text.split("\n"):
        if _ENDS.match(line):
            if lines:
                yield from _of_lines(lines)
                lines = []
        elif not line.lstrip(" \t").startswith("#"):
            lines.append(line)
    if lines:
        yield from _of_lines(lines)


def _of_lines(lines: list[str]) -> Iterator[PrintedAd]:
    found = [line for line in lines if line.strip()]
    if not found:
        return
    try:
        yield PrintedAd(to_json(parse_old("\n".join(found))))
    except ClassAdError:
        # as HTCondor does, go on behind the ad that can't be read
        return


def _json(text: str) -> Iterator[PrintedAd]:
    decoder = json.JSONDecoder()
    position = 0
    while True:
        found = re.compile(r"[\s,\]\[]*").match(text, position)
        position = found.end() if found else position
        if position >= len(text):
            return
        try:
            ad, position = decoder.raw_decode(text, position)
        except ValueError as error:
            raise ClassAdError(f"not JSON: {error}") from None
        if isinstance(ad, dict):
            yield PrintedAd(ad)


def _new(text: str) -> Iterator[PrintedAd]:
    """Ads in the syntax of new ClassAds, a line each, as ``-long:new`` prints them."""
    for line in text.splitlines():
        found = line.strip().strip(",")
        if found in ("", "{", "}"):
            continue
        try:
            yield PrintedAd(to_json(ClassAd(found)))
        except (ValueError, SyntaxError) as error:
            raise ClassAdError(f"not a ClassAd: {error}") from None


def _xml(text: str) -> Iterator[dict[str, object]]:
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - a file that its reader names
    except ElementTree.ParseError as error:
        raise ClassAdError(f"not XML: {error}") from None
    for element in root.iter("c") if root.tag == "c" else root.findall("c"):
        yield _xml_record(element)


def _xml_record(element: ElementTree.Element) -> dict[str, object]:
    return {member.get("n", ""): _xml_item(member[0]) for member in element.findall("a") if len(member)}


def _xml_item(element: ElementTree.Element) -> object:
    text = element.text or ""
    match element.tag:
        case "i" | "r":
            ad = ClassAd(f"[ x = {text} ]")
            return to_json(ad)["x"]
        case "s":
            return _unescaped(text)
        case "b":
            return element.get("v") == "t"
        case "un":
            return None
        case "er":
            return "/Expr(error)/"
        case "l":
            return [_xml_item(member) for member in element]
        case "c":
            return _xml_record(element)
        case "at":
            return f'/Expr(absTime("{text}"))/'
        case "rt":
            return f'/Expr(relTime("{text}"))/'
        case _:
            return to_json(ClassAd(f"[ x = {text} ]"))["x"]


def _unescaped(text: str) -> str:
    raw = re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', text)
    value = to_json(ClassAd(f'[ x = "{raw}" ]'))["x"]
    return str(value)
