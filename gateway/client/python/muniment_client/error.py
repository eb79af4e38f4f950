"""What goes wrong with a call."""
from __future__ import annotations

import email.utils
import json
import time
from typing import Any, Literal

from .document import PendingEvents, RowResult, ValidationError, Violation

Kind = Literal["invalid", "auth", "not_found", "conflict", "precondition", "rate_limited", "unavailable", "foreign"]
Outcome = Literal["refused", "try_again", "unknown"]

_KINDS: dict[int, Kind] = {
    401: "auth", 403: "auth", 404: "not_found", 408: "unavailable", 409: "conflict", 412: "precondition", 425: "unavailable", 429: "rate_limited",
}
_STATUSES = {
    "AUTH_REQUIRED": 401, "AUTH_INVALID": 401, "SCOPE_MISSING": 403, "RESOURCE_NOT_FOUND": 404, "STATE_CONFLICT": 409,
    "PRECONDITION_FAILED": 412, "VALIDATION_FAILED": 422, "RATE_LIMITED": 429, "BAD_REQUEST": 400, "INTERNAL_ERROR": 500,
}


def kind_of(status: int) -> Kind:
    """The reaction to a status of the service's."""
    return _KINDS.get(status, "unavailable" if status >= 500 else "invalid")


class MunimentError(Exception):
    """What went wrong with a call.

    kind says what to do about it:

    - invalid: the request is not valid. Change it.
    - auth: the key is missing, wrong, or lacks a scope. Use another one.
    - not_found: the tenant has no such record.
    - conflict: the state of the record does not allow this, or an Idempotency-Key was used for
      something else. Read the record.
    - precondition: the constraint gate refuses the delivery, for the violations; or a confirmation
      is missing.
    - rate_limited: too much at once. Wait retry_after.
    - unavailable: the service can't answer now. A change may have been made: make the same call
      again, with the same Idempotency-Key.
    - foreign: the answer is not one of the service's, but of something on the way or at a wrong
      address, or it is cut off. The message says what came.
    """

    #: Code of the service; empty if the answer was not the service's, or there was none.
    code: str = ""
    #: Status of the answer; 0 if there was none.
    status: int = 0
    #: The first field at fault.
    field: str = ""
    #: The faults, at most 20.
    validation_errors: list[ValidationError]
    #: The rules that refused a delivery, and substrate whose rules they are.
    violations: list[Violation]
    substrate: str = ""
    #: What the key lacks, and what it has.
    required_scopes: list[str]
    key_scopes: list[str]
    #: Of a 503; RIGHT_NOT_IN_FORCE of a row that is refused for good.
    reason: str = ""
    #: What sealing still waits for.
    pending: list[PendingEvents]
    #: Confirms an erasure, and preview says what would go.
    confirmation_token: str = ""
    preview: Any = None
    #: Names the request in the service's log; empty if there was no answer.
    request_id: str = ""
    #: The service's Retry-After, in seconds; 0 if there is none.
    retry_after: float = 0
    #: That of the request, if it had one: whether a change was made that no answer came to shows
    #: when the same call is made with it again.
    idempotency_key: str = ""

    def __init__(self, operation: str, kind: Kind, message: str, *, cut_off: bool = False, **members: Any):
        #: The method and the path of the request.
        self.operation = operation
        self.kind: Kind = kind
        #: For people. The service's texts may change.
        self.message = message
        self.validation_errors, self.violations, self.required_scopes, self.key_scopes, self.pending = [], [], [], [], []
        self.__dict__.update({name: value for name, value in members.items() if value is not None})
        self._cut_off = cut_off
        super().__init__(self._text())

    def _text(self) -> str:
        if self.status == 0:
            return f"{self.operation}: no answer: {self.message}"
        said = f"{self.status} {self.code}: {self.message}" if self.code else f"the answer is not the service's: {self.message}"
        reason = f" ({self.reason})" if self.reason else ""
        request = f" [request {self.request_id}]" if self.request_id else ""
        return f"{self.operation}: {said}{reason}{request}"

    @property
    def passes(self) -> bool:
        """Whether the same request may be answered otherwise later."""
        if self.status == 409:  # an earlier attempt with the same Idempotency-Key is still being answered
            return self.code != "" and self.retry_after > 0
        if self.status == 200:
            return self._cut_off
        return self.status in (0, 408, 425, 429) or self.status >= 500

    @property
    def outcome(self) -> Outcome:
        """What became of the request: refused for good, and nothing was changed; try_again later, and
        nothing was changed; or unknown, which the same call with the same Idempotency-Key resolves."""
        if self.kind in ("unavailable", "foreign"):
            return "unknown"
        return "try_again" if self.passes else "refused"


def unanswered(operation: str, why: BaseException | str) -> MunimentError:
    """The error of a request that no answer came to."""
    return MunimentError(operation, "unavailable", str(why) or type(why).__name__)


def broken(operation: str, status: int, headers: Any, message: str, cut_off: bool = False) -> MunimentError:
    """The error of an answer that is not whole, or can't be read."""
    return MunimentError(
        operation, "foreign", message, cut_off=cut_off, status=status, request_id=headers.get("X-Request-Id", ""), retry_after=retry_after(headers)
    )


def refused(operation: str, status: int, headers: Any, text: bytes) -> MunimentError:
    """Reads the error envelope of an answer; one without is of something else on the way."""
    body = read_object(text)
    if body is None or body.get("ok") is not False or not isinstance(body.get("error"), str) or not body["error"]:
        return broken(operation, status, headers, foreign(status, headers, text))

    def listed(name: str) -> list[Any]:
        return body[name] if isinstance(body.get(name), list) else []

    def said(name: str) -> str:
        return body[name] if isinstance(body.get(name), str) else ""

    return MunimentError(
        operation, kind_of(status), said("message"), code=body["error"], status=status, field=said("field"), validation_errors=listed("validationErrors"),
        violations=listed("violations"), substrate=said("substrate"), required_scopes=listed("requiredScopes"), key_scopes=listed("keyScopes"),
        reason=said("reason"), pending=listed("pending"), confirmation_token=said("confirmationToken"), preview=body.get("preview"),
        request_id=said("requestId") or headers.get("X-Request-Id", ""), retry_after=retry_after(headers),
    )


def read_object(text: bytes) -> dict[str, Any] | None:
    """The object that a text is; None if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def foreign(status: int, headers: Any, text: bytes) -> str:
    """Describes an answer that is not the service's."""
    start = text[:100].decode(errors="replace")
    printable = "".join(c if c.isprintable() else " " for c in start)
    return f"{status} with {headers.get('Content-Type', 'no content type')!r:.100} that begins {printable!r}"


def retry_after(headers: Any) -> float:
    """Reads the header, in seconds or as a date; 0 if there is none."""
    given = headers.get("Retry-After", "")
    if given.isascii() and given.isdigit() and len(given) < 10:
        return int(given)
    try:
        return max(email.utils.parsedate_to_datetime(given).timestamp() - time.time(), 0)
    except (TypeError, ValueError):
        return 0


def error_of_row(row: RowResult) -> MunimentError | None:
    """The error of a row that was rejected; None of any other."""
    e = row.get("error")
    if not e:
        return None
    status = 503 if e["error"] == "INTERNAL_ERROR" and e.get("reason") else _STATUSES.get(e["error"], 500)
    violations = e.get("violations")
    return MunimentError(
        f"row {row['index']}", kind_of(status), e["message"], code=e["error"], status=status, field=e.get("field"),
        validation_errors=e.get("validationErrors") or [], violations=violations if isinstance(violations, list) else [], substrate=e.get("substrate"), reason=e.get("reason"),
    )
