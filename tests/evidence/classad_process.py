"""One ClassAd library as a process: reads and evaluates expressions, one JSON line each way.

    python classad_process.py DIRECTORY     the library in DIRECTORY; '-': fetchwork's own reader and printer

It imports nothing of fetchwork but for '-', so that the Python of a pool root can run it.
"""

import json
import math
import signal
import sys
import warnings
from typing import Any

#: seconds for one expression; the alarm ends the process, which counts as a difference
LIMIT_S = 20


def main(directory: str) -> None:
    """Answer each line: all ads at first, then cases."""
    warnings.simplefilter("ignore")
    if directory != "-":
        sys.path.insert(0, directory)
    import classad2
    import htcondor2  # noqa: F401 - classad2 imports it at its first call

    library = Library(classad2) if directory != "-" else Product(classad2)
    ads = [library.ad(text) for text in json.loads(sys.stdin.readline())]
    for line in sys.stdin:
        signal.alarm(LIMIT_S)
        answer = library.answer(json.loads(line), ads)
        print(json.dumps(answer), flush=True)


class Library:
    """HTCondor's reader and printer as they are."""

    def __init__(self, classad2: Any) -> None:
        self.classad2 = classad2
        self.problems: tuple[Any, ...] = (
            getattr(classad2, "ClassAdException", ValueError),
            SyntaxError,
            ValueError,
            RuntimeError,
        )

    def ad(self, text: str) -> Any:
        """Return the ad of a text in old syntax."""
        return self.classad2.parseNext(text, self.classad2.ParserType.Old)

    def read(self, text: str) -> Any:
        """Return the expression of a text in new syntax; None for another text."""
        ad = self.classad2.ClassAd(f"[probe = {text}\n; guard = true]")
        return ad.lookup("probe") if set(ad) == {"probe", "guard"} else None

    def read_line(self, line: str) -> Any:
        """Return the expression in a line of old syntax."""
        ad = self.ad(line)
        return ad.lookup("probe") if ad is not None and len(ad) == 1 else None

    def line(self, tree: Any) -> str:
        """Return the line of old syntax that stands for the expression."""
        ad = self.classad2.ClassAd()
        ad["probe"] = tree
        return str(ad.printOld()).removesuffix("\n")

    def answer(self, case: dict[str, Any], ads: list[Any]) -> dict[str, Any]:
        """Return how the text was read, its value without and with a target, and its line."""
        try:
            tree = self.read_line(case["line"]) if "line" in case else self.read(case["text"])
        except self.problems:
            tree = None
        if tree is None:
            return {"read": None}
        my, target = ads[case["my"]], ads[case["target"]]
        answer: dict[str, Any] = {"value": self.value(tree, my), "matched": self.value(tree, my, target)}
        try:
            answer["read"] = repr(tree)
            answer["line"] = self.line(tree)
            answer["names"] = sorted(name.lower() for name in self.classad2.ClassAd().externalRefs(tree))
        except (*self.problems, UnicodeDecodeError) as error:
            answer.setdefault("read", f"unprintable: {error}")
        return answer

    def value(self, tree: Any, *ads: Any) -> str:
        """Return an expression's value as text."""
        try:
            return self.text(tree.eval(*ads))
        except (*self.problems, SystemError, UnicodeDecodeError):
            return "error"

    def text(self, value: Any) -> str:
        """Return a value as text, of a form that is the same for all libraries."""
        if value is self.classad2.Value.Undefined:
            return "undefined"
        if value is self.classad2.Value.Error:
            return "error"
        if isinstance(value, float):
            return "nan" if math.isnan(value) else repr(value)
        if isinstance(value, list):
            return "{" + ", ".join(map(self.text, value)) + "}"
        if isinstance(value, self.classad2.ClassAd):
            return "[" + "; ".join(f"{name} = {self.text(value[name])}" for name in sorted(value)) + "]"
        if isinstance(value, self.classad2.ExprTree):
            return repr(value)
        if isinstance(value, bool | int | str):
            return json.dumps(value)
        return f"{type(value).__name__} {value}"


class Product(Library):
    """fetchwork's reader and printer over the bindings that it has."""

    def __init__(self, classad2: Any) -> None:
        super().__init__(classad2)
        from fetchwork.classad import ads
        from fetchwork.errors import ClassAdError

        self.ads = ads
        self.problems = (*self.problems, ClassAdError)

    def ad(self, text: str) -> Any:
        return self.ads.parse_old(text)

    def read(self, text: str) -> Any:
        return self.ads.parse_expr(text)

    def read_line(self, line: str) -> Any:
        return self.ad(line).lookup("probe")

    def line(self, tree: Any) -> str:
        ad = self.classad2.ClassAd()
        ad["probe"] = tree
        return self.ads.print_old(ad).removesuffix("\n")


if __name__ == "__main__":
    main(sys.argv[1])
