"""The bounds of what is shown, and the form of a detector."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds one kind of secret or personal datum in text.

    ``find`` yields (start, end) of what must go; it runs only where one of ``hints`` (lower case) occurs in the
    lowered text, or always if there are none. It must be linear in the text and must not raise.
    """

    kind: str
    hints: tuple[str, ...]
    find: Callable[[str], Iterable[Span]]


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds: levels of nesting, characters, entries, entries, bytes of UTF-8; and the user's own detectors."""

    depth: int = 8
    string: int = 2_000
    items: int = 100
    keys: int = 100
    payload: int = 32_000
    detectors: tuple[Detector, ...] = ()


DEFAULT = Policy()
