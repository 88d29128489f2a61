"""Which names say that their value is a secret, judged by whole words, and which say that it is a reference."""

import re
from collections.abc import Callable
from functools import lru_cache

# A mark of the sanitizer is no part of the name it stands in.
_MARK = re.compile(r"\[(?:masked:|binary )[^\]]*\]")
_BREAK = re.compile(r"(?<=[a-zа-яё0-9])(?=[A-ZА-ЯЁ])|(?<=[A-ZА-ЯЁ])(?=[A-ZА-ЯЁ][a-zа-яё])|[\W_]+")
_LONGEST = 120


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The last words of a secret's name. What follows the noun changes the meaning: token_type, password_policy.
_NOUNS = _set(
    """
    password passwords passwd pwd passphrase passcode secret secrets token credential credentials authorization
    cookie cookies apikey apikeys apitoken accesskey secretkey privatekey authtoken accesstoken refreshtoken
    clientsecret bearer jwt cvv cvc otp mnemonic пароль пароли секрет токен
    """
)
_KEY_OWNERS = _set(
    """
    api access secret private signing encryption master account shared auth ssh subscription session client
    service hmac license storage deploy
    """
)
_TOKEN_OWNERS = _set("access refresh id auth bearer api session csrf xsrf secret security")
# Words after the noun that leave it a secret.
_TAILS = _set("value raw plain plaintext text hash b64 base64 encrypted confirm confirmation old new current")
# Tokens that are positions, counts or vocabulary, not credentials.
_HARMLESS_TOKENS = _set(
    """
    page next previous prev cursor continuation pagination scroll resume sync start fencing fence lease max min
    pad eos bos unk sep cls mask stop first last per
    """
)
_REFERENCES = _set(
    """
    id ids uuid ulid ref refs reference seq sha256 digest hash status state code attempt kind type version
    """
)
_DESCRIPTIONS = _set(
    """
    $secret type title description format kind name id scope scopes status enum expires_at expires_in $ref
    """
)
_PROSE_NOUNS = _set("token secret secrets cookie cookies bearer authorization credential credentials")
_BASE64 = frozenset({"base64", "b64"})
_NAME_FIELDS = frozenset({"name", "key", "header", "field", "k"})
_VALUE_FIELDS = ("value", "v", "values")


def words(name: str) -> tuple[str, ...]:
    """The words of a snake, kebab, dotted or camel name in lower case; () if it is too long to be a name."""
    # Long texts are turned away here, so that the memory of names never holds a payload.
    return _words(name) if len(name) <= _LONGEST else ()


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in _BREAK.split(_MARK.sub(" ", name)) if part)


def is_secret(name: str) -> bool:
    """Whether a value under this name is to be masked. ``$secret`` is not: it holds a name, never the secret."""
    parts = list(words(name))
    while len(parts) > 1 and (parts[-1] in _TAILS or parts[-1].isdigit()):
        parts.pop()
    if not parts or name == "$secret":
        return False
    last, before = parts[-1].rstrip("0123456789"), parts[-2] if len(parts) > 1 else ""
    if last in ("key", "keys"):
        return before in _KEY_OWNERS
    if last == "tokens":
        return before in _TOKEN_OWNERS
    return last in _NOUNS and not (last == "token" and before in _HARMLESS_TOKENS)


def is_prose_noun(name: str) -> bool:
    """Whether the name is one that sentences use too ("the token: a small disc")."""
    return name.replace(" ", "").isalpha() and not _PROSE_NOUNS.isdisjoint(words(name)[-1:])


def is_reference(name: str) -> bool:
    """Whether the name is an id's, a reference's or a status': kept when the rest is cut."""
    return words(name)[-1:] != () and words(name)[-1] in _REFERENCES


def is_description(name: str) -> bool:
    """Whether, inside a value that is secret as a whole, this entry only describes it."""
    return name.lower() in _DESCRIPTIONS


def says_base64(name: str) -> bool:
    """Whether the name announces base64."""
    return not _BASE64.isdisjoint(words(name))


def paired_value(fields: dict[str, str], names_secret: Callable[[str], bool]) -> str | None:
    """The entry that holds the value of a secret in {"name": "password", "value": …}, if it is such a pair."""
    names = (value for key, value in fields.items() if key.lower() in _NAME_FIELDS)
    if len(fields) > 12 or not any(map(names_secret, names)):
        return None
    return next((key for key in fields if key.lower() in _VALUE_FIELDS), None)
