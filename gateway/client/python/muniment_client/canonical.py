"""Texts that are signed and hashed: RFC 8785, base64, times, ids. Readers accept exactly what writers write."""
from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import math
import re
from typing import Any


class VerifyError(Exception):
    """A check that failed. Its code is one of muniment verify's."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code


def malformed(what: str) -> VerifyError:
    return VerifyError("format.invalid", what)


def canonical(value: Any) -> str:
    """The RFC 8785 text of a value."""
    try:
        text = _text(value)
        text.encode()
    except (RecursionError, TypeError, UnicodeEncodeError) as err:
        raise malformed(f"no RFC 8785 text says it: {type(err).__name__}") from None
    return text


def _text(value: Any) -> str:
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{_text(of)}" for name, of in members) + "}"
    return "[" + ",".join(map(_text, value)) + "]"


def _number(value: int | float) -> str:
    """A number as ECMAScript writes it: the shortest digits that are read as the same double."""
    try:
        double = float(value)
    except OverflowError:
        raise malformed("a number is out of range") from None
    if not math.isfinite(double):
        raise malformed("a number is out of range")
    sign, digits, exponent = decimal.Decimal(repr(double)).normalize().as_tuple()
    assert isinstance(exponent, int)
    if double == 0:
        return "0"
    shown, point = "".join(map(str, digits)), len(digits) + exponent
    if 0 < point <= 21:
        text = shown.ljust(point, "0")[:point] + ("." + shown[point:] if len(shown) > point else "")
    elif -6 < point <= 0:
        text = "0." + "0" * -point + shown
    else:
        text = shown[0] + ("." + shown[1:] if len(shown) > 1 else "") + f"e{point - 1:+d}"
    return "-" * sign + text


def parse(text: str | bytes) -> Any:
    """The value of one JSON text, in which no object has a member twice."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode(), object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, RecursionError) as err:
        raise malformed(f"it is not one JSON value: {type(err).__name__}") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise malformed("a member is there twice")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def parse_canonical(text: str) -> Any:
    """The value of a text that has to be in RFC 8785 form."""
    value = parse(text)
    if canonical(value) != text:
        raise malformed("it is not in RFC 8785 form")
    return value


def has_members(value: Any, names: str, optional: str = "") -> bool:
    """Whether a value is an object with these members, and no other but the optional ones."""
    required = set(names.split())
    return isinstance(value, dict) and required <= value.keys() <= required | set(optional.split())


def is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_whole(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 2**53 and value == int(value)


def from_base64(text: Any, size: int | None = None) -> bytes | None:
    """Bytes of base64, in its one spelling; None if it is none."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return None
    return raw if base64.b64encode(raw).decode() == text and size in (None, len(raw)) else None


def from_base64url(text: Any, size: int) -> bytes | None:
    """Bytes of base64url without padding, in its one spelling; None if it is none."""
    if not isinstance(text, str) or re.fullmatch(r"[A-Za-z0-9_-]*", text) is None:
        return None
    return from_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), size)


def to_base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


_EPOCH = datetime.datetime(1970, 1, 1)


def millis(text: Any) -> int | None:
    """Milliseconds of a time in its one spelling, of the years 1 to 9999; None if it is none."""
    if not isinstance(text, str) or re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", text) is None:
        return None
    try:
        return (datetime.datetime.fromisoformat(text[:-1]) - _EPOCH) // datetime.timedelta(milliseconds=1)
    except ValueError:
        return None


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def moment_of(id: Any, prefix: str) -> int | None:
    """The moment of an id of a prefix and a ULID, in milliseconds; None if it is none."""
    if not isinstance(id, str) or re.fullmatch(re.escape(prefix) + "[0-7][0-9A-HJKMNP-TV-Z]{25}", id) is None:
        return None
    moment = 0
    for digit in id[len(prefix) : len(prefix) + 10]:
        moment = moment * 32 + _CROCKFORD.index(digit)
    return moment


def is_tenant(id: Any) -> bool:
    return id == "tnt_system" or moment_of(id, "tnt_") is not None
