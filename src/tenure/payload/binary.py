"""Binary in disguise: bytes, lists of bytes, data URIs and base64 in every dress become a small descriptor."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

KEY = "$binary"

# The shortest run that is taken for base64 without a hint; ids, hashes and page tokens are shorter.
_SHORTEST = 100
_SHORTEST_HINTED = 16
_KINDS = frozenset({"bytes", "integers", "base64", "data_uri"})

_X = "[A-Za-z0-9+/_-]"
_EOL = r"(?:\r?\n|(?:\\r)?\\n)[ \t]{0,8}"
# Starts only where a run starts, and possessive: each character is looked at a bounded number of times.
_RUN = re.compile(
    rf"(?<![A-Za-z0-9+/_-]){_X}{{40,}}+(?:{_EOL}{_X}{{40,}}+)*+(?:{_EOL}{_X}{{1,}}+(?=={{0,2}}(?:\s|\\[rn]|\Z)))?+={{0,2}}"
)
_URI = re.compile(
    r"data:(?P<media>[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,80})?(?:;[A-Za-z0-9_.+=\"-]{1,80}){0,4}?;base64,"
    r"(?P<body>(?:[A-Za-z0-9+/_=-]|%[0-9A-Fa-f]{2}|\r?\n[ \t]{0,8}(?=[A-Za-z0-9+/_=-]{20})|(?:\\r)?\\n)*+)",
    re.IGNORECASE,
)
_HINTED = re.compile(r"[A-Za-z0-9+/_\s-]+={0,2}\s*")
_BLANKS = re.compile(r"\s+|\\r|\\n")
_MEDIA = re.compile(r"[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,80}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MARKERS = re.compile(r"\[binary [^\]]{0,300}\]")


def describe(data: bytes, kind: str, media_type: str | None = None) -> dict[str, Any]:
    """``{"$binary": {kind, media_type?, bytes, sha256}}``."""
    media = {"media_type": media_type} if media_type else {}
    return {KEY: {"kind": kind, **media, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}


def in_words(descriptor: dict[str, Any]) -> str:
    """The descriptor as a piece of text, for binary inside a sentence."""
    return "[binary " + " ".join(f"{key}={value}" for key, value in descriptor[KEY].items()) + "]"


def is_descriptor(value: dict[Any, Any]) -> bool:
    """Whether the value is a descriptor exactly as `describe` makes it; a forged one is data like other data."""
    inner = value.get(KEY) if len(value) == 1 else None
    if type(inner) is not dict or not {"kind", "bytes", "sha256"} <= set(inner) <= {
        "kind",
        "media_type",
        "bytes",
        "sha256",
    }:
        return False
    media = inner.get("media_type", "a/b")
    texts = (inner["kind"], media, inner["sha256"])
    return (
        all(type(text) is str for text in texts)
        and type(inner["bytes"]) is int
        and 0 <= inner["bytes"] < 1 << 60
        and inner["kind"] in _KINDS
        and _MEDIA.fullmatch(media) is not None
        and _SHA256.fullmatch(inner["sha256"]) is not None
    )


def from_object(value: Any, longest_list: int) -> dict[str, Any] | None:
    """The descriptor of bytes-like objects, and of lists longer than the bound that hold nothing but bytes."""
    kind = type(value)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return describe(bytes(value), "bytes")
    if issubclass(kind, (list, tuple)) and len(value) > longest_list:
        data = _bytes_of(value)
        return None if data is None else describe(data, "integers")
    return None


def _bytes_of(value: Any) -> bytes | None:
    if not all(type(item) is int and 0 <= item <= 255 for item in value):
        return None
    return bytes(value)


def from_text(text: str, *, hinted: bool) -> dict[str, Any] | None:
    """The descriptor of a text that is nothing but base64 or one data URI; ``hinted``: its surroundings say so."""
    body = text.strip(" \t\r\n\"'")
    if body[:5].lower() == "data:":
        match = _URI.fullmatch(body)
        return None if match is None else _from_uri(match)
    if hinted and len(body) >= _SHORTEST_HINTED and _HINTED.fullmatch(body):
        return describe(_decode(body), "base64")
    match = _RUN.fullmatch(body) if len(body) >= _SHORTEST else None
    return describe(_decode(body), "base64") if match and _looks_encoded(body) else None


def in_text(text: str, window: int) -> Iterator[tuple[int, int, str]]:
    """(start, end, replacement) of the binary pieces that begin within the window; one may end beyond it."""
    if "base64," in text[:window].lower():
        for match in _whole(_URI, text, window):
            yield match.start(), match.end(), in_words(_from_uri(match))
    for match in _whole(_RUN, text, window):
        if len(match[0]) >= _SHORTEST and _looks_encoded(match[0]):
            yield match.start(), match.end(), in_words(describe(_decode(match[0]), "base64"))


def _whole(pattern: re.Pattern[str], text: str, window: int) -> Iterator[re.Match[str]]:
    for match in pattern.finditer(text, 0, window):
        # One that touches the edge may go on behind it: matched anew, for its length and hash.
        yield (pattern.match(text, match.start()) or match) if match.end() >= window - 3 else match


def _from_uri(match: re.Match[str]) -> dict[str, Any]:
    media = match["media"]
    return describe(_decode(unquote(match["body"])), "data_uri", media.lower() if media else None)


def _decode(text: str) -> bytes:
    body = _BLANKS.sub("", text).replace("-", "+").replace("_", "/").rstrip("=")
    # One character over a multiple of four holds no byte.
    body = body[: len(body) - 1] if len(body) % 4 == 1 else body
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4))
    except binascii.Error:
        return body.encode("utf-8", "replace")


def _looks_encoded(text: str) -> bool:
    """Encoded bytes mix cases and digits evenly; prose, slugs, paths and hex do not."""
    sample = text[:4096]
    upper = sum(map(str.isupper, sample))
    lower = sum(map(str.islower, sample))
    digits = sum(map(str.isdigit, sample))
    return upper * 8 >= len(sample) and lower > 0 and digits * 40 >= len(sample)
