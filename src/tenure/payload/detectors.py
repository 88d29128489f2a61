"""What is masked inside text: shapes of credentials, and personal data that its own structure proves.

Every search is linear: a pattern starts only where a run of its characters starts, repeats within bounds or
possessively, and runs only in text that holds one of the detector's hints.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from tenure.payload import keys
from tenure.payload.policy import Detector, Span

# What this package writes in place of what it takes out; it is never a value itself.
MARKER = re.compile(r"\[(?:masked:[a-z0-9_]{1,40}|binary [^\]]{0,300})\]")

# -- credentials with a shape of their own ---------------------------------------------------------------------------

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]{1,60}-----.*?(?:-----END [A-Z0-9 ]{1,60}-----|\Z)", re.DOTALL)

# What a text must hold (in lower case) → the shape that is then looked for.
_SHAPES = {
    "sk-": r"sk-(?:(?:proj|ant|svcacct|admin|or|live|test|lf)-[\w-]{8,}+|[A-Za-z0-9]{20,}+)",
    " sk-": r"sk-(?=[a-z_-]{0,60}[A-Z0-9])[\w-]{20,}+",
    "pk-lf-": r"pk-lf-[\w-]{8,}+",
    "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_": r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}+",
    "gsk_": r"gsk_[A-Za-z0-9]{20,}+",
    "akia asia": r"A[KS]IA[A-Z0-9]{12,}+",
    "ghp_ gho_ ghu_ ghs_ ghr_": r"gh[pousr]_[A-Za-z0-9]{16,}+",
    "github_pat_": r"github_pat_\w{20,}+",
    "glpat- gldt- glrt-": r"gl(?:pat|dt|rt)-[\w-]{16,}+",
    "xox": r"xox[abeoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}+",
    "xapp-": r"xapp-[A-Za-z0-9-]{10,}+",
    "hooks.slack.com": r"(?<=hooks\.slack\.com/)services/[\w/]{10,}+",
    "aiza": r"AIza[\w-]{30,}+",
    "ya29.": r"ya29\.[\w-]{16,}+",
    "gocspx-": r"GOCSPX-[\w-]{16,}+",
    "hf_": r"hf_[A-Za-z0-9]{20,}+",
    "npm_": r"npm_[A-Za-z0-9]{20,}+",
    "pypi-": r"pypi-[\w-]{20,}+",
    "sg.": r"SG\.[\w-]{10,}+(?:\.[\w-]++)?",
    "dop_v1_ doo_v1_ dor_v1_": r"do[opr]_v1_[0-9a-f]{20,}+",
    "shpat_ shpca_ shppa_ shpss_": r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{20,}+",
    "whsec_": r"whsec_[A-Za-z0-9+/=]{16,}+",
    "xai-": r"xai-[A-Za-z0-9]{20,}+",
    "r8_": r"r8_[A-Za-z0-9]{20,}+",
    "pplx-": r"pplx-[A-Za-z0-9]{20,}+",
    "tvly-": r"tvly-[\w-]{16,}+",
    "age-secret-key-": r"AGE-SECRET-KEY-1[A-Z0-9]{20,}+",
    "aqvn": r"AQVN[\w-]{20,}+",
    "y0_": r"y0_[\w-]{20,}+",
    "t1.": r"t1\.[\w=-]{16,}+\.[\w=-]{40,}+",
    ":aa": r"[0-9]{8,10}:AA[\w-]{30,}+",
    "key-": r"key-[0-9a-f]{32}",
}

_SCHEME = re.compile(r"(?<![\w-])(?:bearer|basic|negotiate)[ \t]{1,4}([A-Za-z0-9+/=._~-]{6,}+)", re.IGNORECASE)
_PROSE = re.compile(r"[A-Za-z]?[a-z]*(?:[._-]+[A-Za-z]?[a-z]*)*|[A-Z]+")
_JWT_RUN = re.compile(r"[A-Za-z0-9_.-]{12,}+")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{4,}+\.")


def _spans(pattern: re.Pattern[str], group: int = 0) -> Callable[[str], Iterator[Span]]:
    def find(text: str) -> Iterator[Span]:
        return (match.span(group) for match in pattern.finditer(text))

    return find


def _schemes(text: str) -> Iterator[Span]:
    for match in _SCHEME.finditer(text):
        word = match[1].rstrip(".")
        # "Basic authentication" and "bearer of good news" are prose; no word of it is that long.
        if len(word) >= 24 or not _PROSE.fullmatch(word):
            yield match.span(1)


def _jwts(text: str) -> Iterator[Span]:
    for run in _JWT_RUN.finditer(text):
        start = run[0].find("eyJ")
        while start >= 0:
            match = _JWT.match(run[0], start)
            if match:
                yield run.start() + start, run.end()
                break
            # The header's run of characters is refused as a whole: only behind its dot can another one start.
            dot = run[0].find(".", start)
            start = run[0].find("eyJ", dot) if dot >= 0 else -1


# -- names and their values ------------------------------------------------------------------------------------------

_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?:(?<=%)[0-9A-Fa-f]{2})?+((?:[^\W\d_]{2,12}+[ ])?[\w.$-]{1,64}+)(?:\\{0,3}["'])?"""
    r"""[ \t]{0,3}(=>|:=|[=:]|%3[Dd])[ \t]{0,3}(?=\S)"""
)
_QUOTED = re.compile(r"""(\\{0,3})(["'])""")
_BARE = re.compile(
    r"""(?:(?:bearer|basic|token|apikey|digest|negotiate)[ \t]{1,4})?"""
    r"""(?:[^\s&;"'<>\\%]|%(?!26)|\\(?!["'nrt]))++""",
    re.IGNORECASE,
)
_INERT = re.compile(
    r"(?:true|false|null|none|nil|undefined|[0-9]{1,3}|\*+|\.{2,}|[{\[(]+|\$\{\w+\})[,.)\]}]*", re.IGNORECASE
)
_PAIR = re.compile(
    r"""\\{0,3}["'](?:name|key|header|field)\\{0,3}["']\s{0,3}:\s{0,3}\\{0,3}["']([\w.-]{1,64})\\{0,3}["']\s{0,3},\s{0,3}"""
    r"""\\{0,3}["']value\\{0,3}["']\s{0,3}:\s{0,3}(?=\\{0,3}["'])"""
)
_LISTED = re.compile(r"""[\[(]\s{0,3}b?\\{0,3}["']([\w.-]{1,64})\\{0,3}["']\s{0,3},\s{0,3}b?(?=\\{0,3}["'])""")
_COOKIES = re.compile(
    r"""(?<![\w-])(?:set-)?cookies?["']?[ \t]{0,3}[:=][ \t]{0,3}["']?([^\s"'=;]{1,128}=[^\r\n"']++)""",
    re.IGNORECASE,
)


def _assigned(text: str) -> Iterator[Span]:
    hidden = 0
    for match in _ASSIGNED.finditer(text):
        name = match[1].lstrip("-$")
        # A name inside a value that goes anyway is not looked at: each value is walked once.
        if match.start() < hidden or not keys.is_secret(name):
            continue
        span = _value_at(text, match.end())
        spaced = match[2] == ":" and text[match.end() - 1] in " \t"
        if span and not (spaced and keys.is_prose_noun(name) and _reads_as_prose(text, span)):
            hidden = span[1]
            yield span


def _value_at(text: str, start: int) -> Span | None:
    """The value that begins here, within its quotes or up to the next separator; None if there is nothing to hide."""
    if MARKER.match(text, start):
        return None
    quote = _QUOTED.match(text, start)
    if quote:
        return quote.end(), _closing(text, quote)
    match = _BARE.match(text, start)
    if match is None or _INERT.fullmatch(match[0]):
        return None
    return start, start + max(len(match[0].rstrip(".,:)]}")), 1)


def _closing(text: str, quote: re.Match[str]) -> int:
    # An unclosed quote hides the rest: the text may have been cut inside the secret.
    escape, mark = quote[1], quote[2]
    inside = rf"(?:(?!{re.escape(escape + mark)})[\s\S])*+" if escape else rf"(?:[^{mark}\\]|\\[\s\S]?)*+"
    match = re.compile(inside).match(text, quote.end())
    return match.end() if match else len(text)


def _reads_as_prose(text: str, span: Span) -> bool:
    word = text[span[0] : span[1]]
    return len(word) < 16 and word.isalpha()


def _paired(text: str) -> Iterator[Span]:
    for pattern in (_PAIR, _LISTED):
        hidden = 0
        for match in pattern.finditer(text):
            if match.start() < hidden or not keys.is_secret(match[1]):
                continue
            span = _value_at(text, match.end())
            if span and not (pattern is _LISTED and text[span[0] : span[1]].isalpha() and "-" not in match[1]):
                hidden = span[1]
                yield span


_USERINFO = re.compile(r"""(?<=://)[^\s:/@"'<>]{0,128}:([^\s/"'<>]{1,256})@""")
_USER_ONLY = re.compile(r"""(?<=://)([A-Za-z0-9_-]{20,128}+)@""")
_SIGNATURES = re.compile(
    r"""[?&](?:sig|signature|x-amz-signature|x-goog-signature|key|token)=([^\s&"'<>#]{8,})""", re.IGNORECASE
)

# -- personal data ---------------------------------------------------------------------------------------------------

_DOMAIN = re.compile(r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}([^\W\d_]{2,24}|xn--[a-z0-9]{2,30})(?![\w-])")
_LOCAL_BACKWARDS = re.compile(r"[\w.%+'-]{1,64}+")
_FILES = frozenset(
    {"png", "jpg", "jpeg", "gif", "webp", "svg", "ico", "css", "js", "mjs", "ts", "py", "json", "html", "md", "txt"}
)

_PHONES = re.compile(
    r"(?<![\w.+-])(?:"
    r"\+[1-9](?:[ \u00a0().-]{0,2}[0-9]){9,14}"
    r"|8[ \u00a0-]?\(?9[0-9]{2}\)?[ \u00a0-][0-9]{3}[ \u00a0-]?[0-9]{2}[ \u00a0-]?[0-9]{2}"
    r"|(?:1[ -])?(?:\([2-9][0-9]{2}\)[ ]?|[2-9][0-9]{2}[-.])[2-9][0-9]{2}[-. ][0-9]{4}"
    r")(?![\w-]|\.[0-9])"
)
_CARDS = re.compile(
    r"(?<![\w-])(?<![0-9][.,])(?:"
    r"[0-9]{4}([ \u00a0-])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}(?:\1[0-9]{1,3})?"
    r"|3[0-9]{3}([ \u00a0-])[0-9]{6}\2[0-9]{4,5}"
    r"|(?:4[0-9]{15}|5[1-5][0-9]{14}|2[2-7][0-9]{14}|3[47][0-9]{13}|6(?:011|5[0-9]{2})[0-9]{12})"
    r")(?![\w-]|[.,][0-9])"
)
_SNILS = re.compile(r"(?<![\w-])[0-9]{3}-[0-9]{3}-[0-9]{3}[ -][0-9]{2}(?![\w-])")
_INN = re.compile(r"(?<!\w)(?:ИНН|INN)[ \t:№=]{0,4}([0-9]{12}|[0-9]{10})(?!\w)", re.IGNORECASE)


def _emails(text: str) -> Iterator[Span]:
    at = text.find("@")
    while at >= 0:
        local, domain = _LOCAL_BACKWARDS.match(text[max(at - 64, 0) : at][::-1]), _DOMAIN.match(text, at)
        if local and domain and domain[1].lower() not in _FILES and local[0] != "tig":
            start = at - len(local[0])
            # In a URL the part before the host is a user; the host stays readable.
            yield start, at if text.endswith("://", 0, start) else domain.end()
        at = text.find("@", at + 1)


def _phones(text: str) -> Iterator[Span]:
    for match in _PHONES.finditer(text):
        # A sign and one point are a decimal number (a latitude), not a phone.
        if not (match[0].count(".") == 1 and not re.search(r"[ \u00a0()-]", match[0])):
            yield match.span()


def _cards(text: str) -> Iterator[Span]:
    return (match.span() for match in _CARDS.finditer(text) if _luhn(_digits(match[0])))


def _digits(text: str) -> list[int]:
    return [int(char) for char in text if char.isdigit()]


def _luhn(digits: list[int]) -> bool:
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[-2::-2])
    return 13 <= len(digits) <= 19 and any(digits) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _snils(text: str) -> Iterator[Span]:
    for match in _SNILS.finditer(text):
        digits = _digits(match[0])
        total = sum(weight * digit for weight, digit in zip(range(9, 0, -1), digits, strict=False))
        if total % 101 % 100 == digits[9] * 10 + digits[10]:
            yield match.span()


def _inns(text: str) -> Iterator[Span]:
    return (match.span(1) for match in _INN.finditer(text) if _inn(_digits(match[1])))


_INN_WEIGHTS = (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)


def _inn(digits: list[int]) -> bool:
    def check(length: int) -> bool:
        return sum(w * d for w, d in zip(_INN_WEIGHTS[-length:], digits, strict=False)) % 11 % 10 == digits[length]

    return check(9) if len(digits) == 10 else check(10) and check(11)


# -- the table -------------------------------------------------------------------------------------------------------

_NAMES = ("pass", "pwd", "secret", "token", "cred", "auth", "cookie", "key", "bearer", "jwt", "cvv", "cvc", "otp")

DETECTORS: tuple[Detector, ...] = (
    Detector("pem", ("-----begin ",), _spans(_PEM)),
    Detector("jwt", ("eyj",), _jwts),
    *(
        Detector("api_key", tuple(hints.split()), _spans(re.compile(rf"(?<![A-Za-z0-9])(?:{shape})", re.ASCII)))
        for hints, shape in _SHAPES.items()
    ),
    Detector("credentials", ("bearer", "basic", "negotiate"), _schemes),
    Detector("password", ("://",), _spans(_USERINFO, 1)),
    Detector("password", ("://",), _spans(_USER_ONLY, 1)),
    Detector("key", (*_NAMES, "mnemonic", "парол", "секрет", "токен"), _assigned),
    Detector("key", _NAMES, _paired),
    Detector("cookie", ("cookie",), _spans(_COOKIES, 1)),
    Detector("signature", ("sig", "key=", "token="), _spans(_SIGNATURES, 1)),
    Detector("email", ("@",), _emails),
    Detector("card", (), _cards),
    Detector("phone", (), _phones),
    Detector("snils", (), _snils),
    Detector("inn", ("инн", "inn"), _inns),
)


def find(text: str, extra: Iterable[Detector] = ()) -> Iterator[tuple[int, int, str]]:
    """(start, end, kind) of all that is to be masked, in no order; spans may overlap."""
    lowered = text.lower()
    for detector in (*DETECTORS, *extra):
        if not detector.hints or any(hint in lowered for hint in detector.hints):
            yield from ((start, end, detector.kind) for start, end in detector.find(text))
