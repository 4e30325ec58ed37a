"""Text with one character for each byte of its UTF-8, as HTCondor counts and cuts it."""


def octets(text: str) -> str:
    """The bytes of a text, each as one character; ASCII stays what it is."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("latin-1")


def text_of(octets: str) -> str:
    """The text whose bytes these are; what is not UTF-8 is kept as surrogates."""
    return octets if octets.isascii() else octets.encode("latin-1").decode("utf-8", "surrogateescape")
