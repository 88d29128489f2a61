"""The one sanitizer: any Python value in, bounded strict JSON without secrets out.

Five properties: total, idempotent, bounded, linear, and masked before cut. Idempotence is by construction: text is
masked and cut until nothing changes, and what is cut is never longer than the bound that cuts.
"""

import json
import re
from itertools import islice
from typing import Any

from tenure.payload import binary, detectors, keys, strict
from tenure.payload.policy import DEFAULT, Policy

MASKED_KEY = "[masked:key]"
UNREADABLE = "[unreadable]"

# Behind the bound, so that a secret which begins before the cut is seen well enough to be known.
_SLACK = 4_096
_PASSES = 4
_LAYERS = 2
_LONGEST_JSON = 1_000_000
_KEY_LENGTH = 200
_NODE_COST = 8
# Names in which no detector of ours finds anything: the shortest shape of letters alone is longer.
_ORDINARY = re.compile("[A-Za-z_]{1,15}")
_NOTE = re.compile(r"\[cut (?:(?:list|object) of )?[0-9]{1,20}(?: more)?\]|[0-9]{1,20} more|\[unreadable\]")
_OPEN_MARK = re.compile(r"\[(?:m|ma|mas|mask|maske|masked(?::[a-z0-9_]*)?|b|bi|bin|bina|binar|binary(?: [^\]]*)?)?\Z")
_SHRINKS = ((500, 50), (200, 20), (80, 10), (40, 5))


def sanitize(value: Any, policy: Policy = DEFAULT) -> Any:
    """What of the value may be shown: plain JSON within the policy's bounds, secrets and personal data masked.

    Never raises, never changes ``value``, and gives its own result back unchanged. Dicts keep the order of keys.
    """
    try:
        return _fit(_Walk(policy, _LAYERS).node(value, 1, hidden=False, hinted=False), policy)
    except Exception:  # noqa: BLE001 - total: a value that changes under our hands, or a full stack
        return UNREADABLE


def sanitize_text(text: str, limit: int = DEFAULT.string, policy: Policy = DEFAULT) -> str:
    """The text with secrets, personal data and binary replaced, then cut to ``limit`` characters. Never raises."""
    try:
        return _text(str.__str__(text), limit, policy, _LAYERS)
    except Exception:  # noqa: BLE001 - total, as above
        return UNREADABLE[:limit]


# -- values ------------------------------------------------------------------------------------------------------------


class _Walk:
    """One walk over one value; ``left`` is what it may still produce before it stops looking."""

    def __init__(self, policy: Policy, layers: int) -> None:
        self.policy = policy
        self.layers = layers
        self.left = 4 * policy.payload

    def node(self, value: Any, level: int, *, hidden: bool, hinted: bool) -> Any:
        try:
            result = self._node(value, level, hidden=hidden, hinted=hinted)
        except Exception:  # noqa: BLE001 - one bad entry does not take its neighbours down
            result = UNREADABLE
        self.left -= _NODE_COST + (len(result) if isinstance(result, str) else 0)
        return result

    def _node(self, value: Any, level: int, *, hidden: bool, hinted: bool) -> Any:
        kind = type(value)
        if issubclass(kind, dict):
            return self._dict(value, level, hidden)
        found = binary.from_object(value, self.policy.items)
        if found is not None:
            return MASKED_KEY if hidden else found
        if issubclass(kind, (list, tuple)):
            return self._list(value, level, hidden, hinted)
        plain = strict.scalar(value)
        return self._string(plain, hidden, hinted) if isinstance(plain, str) else plain

    def _string(self, text: str, hidden: bool, hinted: bool) -> Any:
        if hidden:
            return _hide(text)
        found = binary.from_text(text, hinted=hinted)
        return _text(text, self.policy.string, self.policy, self.layers) if found is None else found

    def _list(self, value: Any, level: int, hidden: bool, hinted: bool) -> Any:
        if level > self.policy.depth:
            return f"[cut list of {len(value)}]"
        total, bound = len(value), self.policy.items
        first = list(islice(iter(value), bound if total <= bound else bound - 1))
        result: list[Any] = []
        for item in first:
            if self.left <= 0:
                break
            result.append(self.node(item, level + 1, hidden=hidden, hinted=hinted))
        if total == len(result) == 2 and self._is_pair(first[0], *result):
            result[1] = _hide(result[1])
        if len(result) < total:
            result.append(f"[cut {total - len(result)} more]")
        return result

    def _dict(self, value: dict[Any, Any], level: int, hidden: bool) -> Any:
        if binary.is_descriptor(value):
            return MASKED_KEY if hidden else {binary.KEY: dict(value[binary.KEY])}
        if level > self.policy.depth:
            return f"[cut object of {len(value)}]"
        pairs = _first_pairs(value, self.policy.keys)
        texts = {name: _plain(child) for _, name, child in pairs}
        pair = keys.paired_value(texts, self._names_secret)
        encoded = any(len(text) == 6 and text.lower() == "base64" for text in texts.values())
        entries: list[tuple[int, str, Any]] = []
        for place, name, child in pairs:
            if self.left <= 0:
                break
            shown = self._name(name)
            self.left -= len(shown)
            secret = name == pair or (hidden and not keys.is_description(name)) or self._names_secret(name)
            hinted = encoded or keys.says_base64(shown)
            entries.append((place, shown, self.node(child, level + 1, hidden=secret, hinted=hinted)))
        return _as_dict(entries, len(value) - len(entries))

    def _is_pair(self, given: Any, name: Any, value: Any) -> bool:
        """Whether a list of two is a name and its secret, as in ["X-Api-Key", "…"], and not two words.

        Judged by what is shown of both, so that a second look judges alike; and by the name as it was given.
        """
        names = [_plain(given), _plain(name)]
        if not any(self._names_secret(text.lstrip("-")) for text in names):
            return False
        return (isinstance(value, str) and ("-" in names[1] or not value.isalpha())) or _is_binary(value)

    def _name(self, name: str) -> str:
        if _ORDINARY.fullmatch(name) and not self.policy.detectors:
            return name
        return _text(name, _KEY_LENGTH, self.policy, 0)

    def _names_secret(self, name: str) -> bool:
        # As it is given and as it is shown: the second look, which sees only the latter, must find nothing new.
        return keys.is_secret(name) or keys.is_secret(self._name(name))


def _plain(value: Any) -> str:
    """The text that a value becomes; "" if it becomes something else."""
    if issubclass(type(value), (bytes, bytearray)):
        return bytes(value[:_KEY_LENGTH]).decode("latin-1")
    if issubclass(type(value), (dict, list, tuple)):
        return ""
    plain = strict.scalar(value)
    return plain if isinstance(plain, str) else ""


def _is_binary(value: Any) -> bool:
    return isinstance(value, dict) and binary.is_descriptor(value)


def _hide(value: Any) -> Any:
    """The mask, but for what is empty, a mask or a note of our own."""
    kept = isinstance(value, str) and (not value or detectors.MARKER.fullmatch(value) or _NOTE.fullmatch(value))
    return value if kept else MASKED_KEY


def _first_pairs(value: dict[Any, Any], bound: int) -> list[tuple[int, str, Any]]:
    """(place, key as text, child), those first that name ids and references; as many as the bound lets in."""
    looked_at = islice(dict.items(value), 10 * bound)
    pairs = [(place, _key_text(key), child) for place, (key, child) in enumerate(looked_at)]
    pairs.sort(key=lambda pair: not keys.is_reference(pair[1]))
    return pairs if len(value) <= bound else pairs[: bound - 1]


def _key_text(key: Any) -> str:
    plain = strict.scalar(key)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _as_dict(entries: list[tuple[int, str, Any]], lost: int) -> dict[str, Any]:
    """The entries in the order in which they were given, under keys made distinct, with a note of what is lost."""
    result: dict[str, Any] = {}
    for _, name, child in sorted(entries, key=lambda entry: entry[0]):
        result[_distinct(name, result)] = child
    if lost > 0:
        result[_distinct("[cut]", result)] = f"{lost} more"
    return result


def _distinct(name: str, taken: dict[str, Any]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}#{number}"
    return candidate


# -- text --------------------------------------------------------------------------------------------------------------


def _text(text: str, limit: int, policy: Policy, layers: int) -> str:
    for _ in range(_PASSES):
        shown = _pass(text, limit, policy, layers)
        if shown == text:
            return shown
        text = shown
    # Text that changes at each look is made so; what does not settle is not shown.
    return "[masked:text]"[:limit]


def _pass(text: str, limit: int, policy: Policy, layers: int) -> str:
    if layers and text[:1] in ("{", "[") and len(text) <= _LONGEST_JSON:
        text = _json_in_text(text, policy, layers)
    window = limit + _SLACK
    head = strict.visible(text[:window])
    found = [*binary.in_text(text, window)]
    found += [(start, end, f"[masked:{kind}]") for start, end, kind in detectors.find(head, policy.detectors)]
    shown, consumed = _replace(head, _merge(head, found))
    return _cut(shown, max(len(text) - max(consumed, window), 0), limit)


def _json_in_text(text: str, policy: Policy, layers: int) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    shown = _fit(_Walk(policy, layers - 1).node(value, 1, hidden=False, hinted=False), policy)
    return text if shown == value else json.dumps(shown, ensure_ascii=False)


def _merge(text: str, found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Spans in order, overlapping ones joined under the first's mark; what is a mark already stays."""
    merged: list[tuple[int, int, str]] = []
    for start, end, mark in sorted(found, key=lambda span: (span[0], -span[1])):
        if start >= end or detectors.MARKER.fullmatch(text, start, end):
            continue
        if merged and start < merged[-1][1]:
            first, last, kept = merged[-1]
            merged[-1] = (first, max(last, end), _stronger(kept, mark))
        else:
            merged.append((start, end, mark))
    return merged


def _stronger(first: str, second: str) -> str:
    return second if first.startswith("[binary ") and second.startswith("[masked:") else first


def _replace(text: str, spans: list[tuple[int, int, str]]) -> tuple[str, int]:
    """The text with each span replaced, and up to where the original is accounted for."""
    pieces: list[str] = []
    position = 0
    for start, end, mark in spans:
        pieces += (text[position:start], mark)
        position = end
    return "".join((*pieces, text[position:])), position


def _cut(text: str, missing: int, limit: int) -> str:
    if not missing and len(text) <= limit:
        return text
    kept = _OPEN_MARK.sub("", text[: max(limit - 24, 0)])
    return f"{kept}…[cut {missing + len(text) - len(kept)}]"[:limit]


# -- size --------------------------------------------------------------------------------------------------------------


def _fit(value: Any, policy: Policy) -> Any:
    """The value, made smaller step by step until its JSON fits the payload; ids and references go last."""
    size = strict.cost(value)
    for limit, items in _SHRINKS:
        if strict.cost(value) <= policy.payload:
            return value
        value = _shrink(value, limit, items, policy)
    return value if strict.cost(value) <= policy.payload else _skeleton(value, size, policy)


def _shrink(value: Any, limit: int, items: int, policy: Policy) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else _text(value, limit, policy, 0)
    if isinstance(value, list):
        kept = [_shrink(child, limit, items, policy) for child in value[:items]]
        return kept if len(value) <= items else [*kept, f"[cut {len(value) - items} more]"]
    if isinstance(value, dict) and not _is_binary(value):
        pairs = _first_pairs(value, items)
        shrunk = [(at, key, _shrink(child, _limit_of(key, limit), items, policy)) for at, key, child in pairs]
        return _as_dict(shrunk, len(value) - len(shrunk))
    return value


def _limit_of(key: str, limit: int) -> int:
    return max(limit, _KEY_LENGTH) if keys.is_reference(key) else limit


def _skeleton(value: Any, size: int, policy: Policy) -> Any:
    note = f"[cut payload of {size} bytes]"
    if not isinstance(value, dict):
        return note
    result: dict[str, Any] = {"[cut]": note}
    for key, child in value.items():
        larger = {**result, key: child}
        if keys.is_reference(key) and not isinstance(child, (dict, list)) and strict.cost(larger) <= policy.payload:
            result = larger
    return result
