"""What must be masked and what must be kept, one row a case.

Values that look real are joined from parts, so that no secret scanner takes this file for a leak.
"""

import base64
import hashlib
from typing import Any


def _join(*parts: str) -> str:
    return "".join(parts)


_BODY = "q7Zt4MnB2vXc9LkJ8hGf6DsA1pOiU3yTrEwQ5xZa"
_HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"
_JWT = ".".join(
    ("eyJ" + "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N")
)
_PEM = "\n".join(
    (_join("-----BEGIN RSA ", "PRIVATE KEY-----"), "MIIEow" + _BODY, _join("-----END RSA ", "PRIVATE KEY-----"))
)
BLOB = b"".join(hashlib.sha256(bytes([number])).digest() for number in range(32))
_B64 = base64.b64encode(BLOB).decode()
_URL64 = base64.urlsafe_b64encode(BLOB).decode()


def wrapped(line_end: str) -> str:
    return line_end.join(_B64[at : at + 76] for at in range(0, len(_B64), 76))


# (value, the piece that must not be seen in the result, pieces that must be seen)
MUST_MASK: list[tuple[Any, str, tuple[str, ...]]] = [
    # key names
    ({"access_token": "abc12345"}, "abc12345", ("access_token",)),
    ({"apiKey": "k-12345678"}, "k-12345678", ()),
    ({"X-Api-Key": "zzz"}, "zzz", ()),
    ({"password": "hunter2!"}, "hunter2!", ()),
    ({"db_password": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"userPasswd": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"password2": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"client_secret": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"secretAccessKey": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"AWS_SECRET_ACCESS_KEY": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"refresh-token": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"OAuthToken": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"headers": {"Authorization": "tr0ub4dor"}}, "tr0ub4dor", ("headers",)),
    ({"Set-Cookie": "sid=tr0ub4dor"}, "tr0ub4dor", ()),
    ({"credentials": {"login": "x", "pin": "tr0ub4dor"}}, "tr0ub4dor", ()),
    ({"api_keys": ["tr0ub4dor", "other"]}, "tr0ub4dor", ()),
    ({"passphrase": b"tr0ub4dor"}, "$binary", ()),
    ({"private_key": "tr0ub4dor"}, "tr0ub4dor", ()),
    ({"пароль": "тайна99"}, "тайна99", ()),
    ({"config": [{"deep": {"signing_key": "tr0ub4dor"}}]}, "tr0ub4dor", ("deep",)),
    ({_join("sk-", "proj-", _BODY): 1}, _BODY, ()),
    # pairs
    ([["Authorization", _join("Bear", "er ", _BODY)]], _BODY, ("Authorization",)),
    ([("X-Api-Key", "tr0ub4dor")], "tr0ub4dor", ("X-Api-Key",)),
    ([(b"authorization", "tr0ub4dor")], "tr0ub4dor", ()),
    ([{"name": "password", "value": "hunter2!"}], "hunter2!", ("password",)),
    ({"key": "API_TOKEN", "value": "tr0ub4dor", "type": "env"}, "tr0ub4dor", ("API_TOKEN", "env")),
    (["--password", "hunter2!"], "hunter2!", ()),
    ('[["X-Api-Key", "tr0ub4dor"], ["a", "b"]]', "tr0ub4dor", ("X-Api-Key",)),
    ('cut off: [{"name": "password", "value": "hunter2!"}, {', "hunter2!", ("cut off",)),
    # key shapes in sentences
    (f"Incorrect API key {_join('sk-', 'proj-', _BODY)} provided", _BODY, ("Incorrect API key", "provided")),
    (f"bad key {_join('sk-', 'ant-api03-', _BODY)}.", _BODY, ("bad key",)),
    (f"key {_join('sk-', _BODY)} is over quota", _BODY, ("over quota",)),
    (f"stripe {_join('sk_', 'live_', _BODY)}", _BODY, ("stripe",)),
    (f"id {_join('AK', 'IA', 'IOSFODNN7EXAMPLE')} used", "IOSFODNN7", ("used",)),
    (f"push with {_join('gh', 'p_', _BODY)} failed", _BODY, ("failed",)),
    (f"{_join('github', '_pat_', _BODY)} expired", _BODY, ("expired",)),
    (f"{_join('gl', 'pat-', _BODY[:20])} expired", _BODY[:20], ("expired",)),
    (f"slack {_join('xo', 'xb-', '2171234567890-', _BODY[:24])}", _BODY[:24], ("slack",)),
    (f"maps {_join('AI', 'za', _BODY[:35])}", _BODY[:35], ("maps",)),
    (f"hub {_join('h', 'f_', _BODY)}", _BODY, ("hub",)),
    (f"{_join('np', 'm_', _BODY)} revoked", _BODY, ("revoked",)),
    (f"bot {_join('123456789', ':AA', _BODY[:33])}", _BODY[:33], ("bot",)),
    (f"mail {_join('S', 'G.', _BODY[:22], '.', _BODY)}", _BODY[:22], ("mail",)),
    (f"token was {_JWT} here", _JWT[10:], ("token was", "here")),
    (f"before\n{_PEM}\nafter", _BODY, ("before", "after")),
    (_PEM[:60], _BODY[:20], ()),
    # schemes, headers, cookies
    (_join("sent Bear", "er ", _BODY, " to host"), _BODY, ("to host",)),
    (_join("curl -H 'Authorization: Bas", "ic dXNlcjpwYXNz' http://h/x"), "dXNlcjpwYXNz", ("http://h/x",)),
    ("Proxy-Authorization: Digest tr0ub4dor", "tr0ub4dor", ("Proxy-Authorization",)),
    ("Cookie: sid=tr0ub4dor; theme=dark\nHost: h", "tr0ub4dor", ("Host: h",)),
    ("{'X-Api-Key': 'tr0ub4dor', 'Accept': 'text/plain'}", "tr0ub4dor", ("text/plain",)),
    # URLs and DSNs
    (f"GET https://h/v3?api_key={_BODY}&q=1 failed", _BODY, ("https://h/v3", "q=1", "failed")),
    ("https://h/cb?state=ok&access_token=tr0ub4dor#x", "tr0ub4dor", ("state=ok",)),
    (f"https://maps/api?key={_BODY}&z=3", _BODY, ("z=3",)),
    (f"https://s3/b/o?X-Amz-Signature={_HEX}&X-Amz-Date=20260301T000000Z", _HEX, ("20260301T000000Z",)),
    ("redirect=https%3A%2F%2Fh%2F%3Fapi_key%3Dtr0ub4dor", "tr0ub4dor", ("redirect",)),
    ("postgres://u:tr0ub4dor@h/db", "tr0ub4dor", ("postgres://u:", "@h/db")),
    ("postgresql+psycopg://u:p@ss:w0rd@h:5432/db?x=1", "p@ss:w0rd", ("@h:5432/db",)),
    ("redis://:tr0ub4dor@h:6379/0", "tr0ub4dor", ("h:6379/0",)),
    (f"clone https://{_BODY}@git.example/x.git", _BODY, ("git.example/x.git",)),
    # assignments in text
    ("password=tr0ub4dor, user=bob", "tr0ub4dor", ("user=bob",)),
    ("DB_PASSWORD: tr0ub4dor", "tr0ub4dor", ("DB_PASSWORD",)),
    ("Server=h;Password=tr0ub4dor;Database=d", "tr0ub4dor", ("Server=h", "Database=d")),
    ('{"password": "tr0ub4dor", "n": 1}', "tr0ub4dor", ('"n": 1',)),
    ('body: {\\"password\\": \\"tr0ub4dor\\", \\"n\\": 1}', "tr0ub4dor", ('\\"n\\": 1',)),
    ('{"outer": "{\\"client_secret\\": \\"tr0ub4dor\\"}"}', "tr0ub4dor", ("outer",)),
    ("repr: {'token': 'tr0ub4dor', 'n': 1}", "tr0ub4dor", ("'n': 1",)),
    ("the api key: tr0ub4dor is invalid", "tr0ub4dor", ("is invalid",)),
    ('unclosed "secret": "tr0ub4dor and mo', "tr0ub4dor", ("unclosed",)),
    # personal data
    ("write to ivan.petrov+x@mail.example.com today", "petrov", ("write to", "today")),
    ("почта иван@пример.рф", "иван@", ("почта",)),
    ("call +7 (916) 123-45-67 now", "123-45-67", ("call", "now")),
    ("call +79161234567 now", "9161234567", ("now",)),
    ("call 8 (916) 123-45-67", "123-45-67", ()),
    ("call +1 415-555-2671 or (415) 555-2671", "555-2671", ()),
    ("paid by 4111 1111 1111 1111.", "1111 1111", ("paid by",)),
    ("paid by 5500-0000-0000-0004", "0000-0004", ()),
    ("paid by 4111111111111111", "4111111", ()),
    ("amex 3782 822463 10005", "822463", ()),
    ("СНИЛС 112-233-445 95", "112-233", ("СНИЛС",)),
    ("ИНН 7707083893, КПП", "7707083893", ("КПП",)),
    # binary in every dress
    (_B64, _B64[8:40], ("base64", '"bytes": 1024')),
    (_URL64, _URL64[8:40], ('"bytes": 1024',)),
    (_B64.rstrip("="), _B64[8:40], ('"bytes": 1024',)),
    (wrapped("\n"), _B64[8:40], ('"bytes": 1024',)),
    (wrapped("\r\n"), _B64[8:40], ('"bytes": 1024',)),
    (f"data:image/png;base64,{_B64}", _B64[8:40], ("image/png", '"bytes": 1024')),
    (f"data:text/plain;charset=utf-8;base64,{_B64}", _B64[8:40], ('"bytes": 1024',)),
    (f"the file {_B64} was sent", _B64[8:40], ("the file", "bytes=1024", "was sent")),
    (f"an image data:image/png;base64,{_B64} was sent", _B64[8:40], ("media_type=image/png", "was sent")),
    (f"lines\n{wrapped(chr(10))}\nend of it", _B64[8:40], ("lines", "bytes=1024", "end of it")),
    (BLOB, _B64[8:40], ('"bytes": 1024',)),
    (bytearray(BLOB), _B64[8:40], ('"bytes": 1024',)),
    (list(BLOB), f"{BLOB[0]}, {BLOB[1]}, {BLOB[2]}", ('"bytes": 1024',)),
    ({"file_base64": base64.b64encode(BLOB[:60]).decode()}, _B64[8:40], ('"bytes": 60',)),
    ({"encoding": "base64", "content": base64.b64encode(BLOB[:60]).decode()}, _B64[8:40], ('"bytes": 60',)),
]

MUST_KEEP: list[Any] = [
    {
        "max_tokens": 4096,
        "usage": {"prompt_tokens": 10, "total_tokens": 12},
        "tokenizer": "bpe",
        "next_page_token": "p2",
        "secretary": "A",
        "cookie_policy": "strict",
        "password_hint_enabled": True,
    },
    {"fencing_token": 7, "token_count": 3, "token_type": "Bearer", "cursor_token": "c2", "nextToken": "n3"},
    {"tokens": ["Hello", "world"], "pad_token": "<pad>", "eos_token": "</s>"},
    {"key": "idempotent-1", "primary_key": "id", "sort_key": "name", "public_key_url": "https://h/jwks"},
    {"author": "Anna", "authority": "city", "keyboard": "qwerty", "passenger": "Bob", "compass": "north"},
    {"password_policy": "12 characters", "secret_name": "DB", "api_key_id": "ak_1", "token_url": "https://h/token"},
    {"api_key": {"$secret": "OPENAI_KEY"}},
    {"password": 5, "token": True, "secret": None},
    ["password", "reset"],
    ["token", "count"],
    {"name": "colour", "value": "red"},
    "0190c2b4-1111-7abc-8def-001122334455",
    "0190c2b411117abc8def001122334455",
    "job 41111111-1111-1111-1111-111111111111 ended",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "at 1767225600 s, 1767225600123 ms, 1767225600123456789 ns",
    1767225600123,
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    {"sha512": "ab" * 64},
    "version 1.2.3.4, 10.4.0-rc.1, lodash@4.17.21",
    "product 4006381333931 and 9780306406157",
    "at 55.755826, 37.617300 and +55.75582612345",
    "2026-03-01T12:00:00+03:00",
    "2026-03-01T12:00:00+0300 2026-03-01",
    "https://h:8080/path/user?page_token=ab12&q=token&limit=10",
    "max_tokens=4096 next_page_token=p2 fencing_token=12",
    "The token: a small disc. The secret: patience.",
    "Basic authentication is used; a bearer of good news; basic well-known rules",
    "task-abcdefghijklmnopqrstuvwxyz and risk-assessment-of-2026",
    "retina icon@2x.png and git@github.com:org/repo.git",
    "how-to-build-a-durable-runtime-for-ai-agents-in-python-with-postgres-and-sqlite-and-some-more-words-here",
    "src/main/java/com/company/project/module/submodule/implementation/factory/AbstractSingletonProxyFactoryBean",
    "a" * 1500,
    "lorem ipsum dolor sit amet " * 60,
    "Съешь ещё этих мягких французских булок, да выпей чаю. " * 20,
    '{"max_tokens": 4096, "next_page_token": "p2"}',
    "quotes ' \" %s {} \\ <b>x</b>",
    "tabs\tand\nlines\r\n",
    list(range(100)),
    [0, 255, 3.5, -1, 10**30, None, False],
    {"a": {"b": [{"c": "d"}]}},
    "order 4111 1111 1111 1112 and 4111111111111112",
    "part 112-233-445 96",
    "INN hotel, room 7707083890",
    "password=${DB_PASSWORD} and token: null",
]
