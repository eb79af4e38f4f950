"""Requests to webhooks."""
from __future__ import annotations

import dataclasses
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .canonical import VerifyError, from_base64
from .directory import Trust, signed_by
from .error import read_object

#: How far a webhook's timestamp may be from now, in seconds.
WEBHOOK_TOLERANCE = 300


class WebhookError(Exception):
    """A request to a webhook is not genuine, or too old."""

    def __init__(self, why: str):
        super().__init__(f"the request is not the service's: {why}")


@dataclasses.dataclass(frozen=True)
class WebhookMessage:
    """A request to a webhook that is genuine."""

    #: Of the delivery, the same in each attempt: by it a receiver knows what it has had before.
    id: str
    #: Of the event.
    type: str
    timestamp: str
    tenant_id: str
    webhook_id: str
    events: list[Any]


def verify_webhook(
    headers: Mapping[str, str], body: bytes, *, secrets: Sequence[str] = (), trust: Trust | None = None, webhook_id: str | None = None, now: float | None = None
) -> WebhookMessage:
    """Verifies a request to a webhook by the Standard Webhooks specification.

    headers are the request's, under names in whatever case. body is that of the request as it came in.
    secrets of the webhook, as whsec_…: the current one and, for a day after a rotation, the one before. For signatures
    of the kind v1.
    trust has the service's key, for signatures of the kind v1a. That key signs for all webhooks of all tenants: give
    webhook_id, which refuses the messages of all others, or compare that of the message.

    An attacker can send a request again within WEBHOOK_TOLERANCE: receivers that mind remember the id. It raises a
    WebhookError; a ValueError if the keys are wrong.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not id or not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 11):
        raise WebhookError("it has no webhook-id or webhook-timestamp")
    late = (time.time() if now is None else now) - int(stamp)
    if abs(late) > WEBHOOK_TOLERANCE:
        raise WebhookError(f"its timestamp is {late:.0f} s from now")
    message = f"{id}.{stamp}.".encode() + body
    if not _is_signed(message, given.get("webhook-signature", ""), int(stamp), secrets, trust):
        raise WebhookError("no signature of it is by a known key")
    content = read_object(body)
    if content is None or not all(isinstance(content.get(name), str) for name in ("type", "timestamp", "tenantId", "webhookId")):
        raise WebhookError("its body can't be read")
    if webhook_id is not None and content["webhookId"] != webhook_id:
        raise WebhookError(f'it is for the webhook "{content["webhookId"]}"')
    data = content.get("data") if isinstance(content.get("data"), dict) else {}
    events = list(data["events"]) if isinstance(data.get("events"), list) else []
    if "event" in data:
        events.append(data["event"])
    return WebhookMessage(id, content["type"], content["timestamp"], content["tenantId"], content["webhookId"], events)


def _is_signed(message: bytes, signatures: str, sent: int, secrets: Sequence[str], trust: Trust | None) -> bool:
    """Whether one of the signatures is by one of the keys. How long it takes does not depend on how much of a signature
    is right."""
    if not secrets and trust is None:
        raise ValueError("cannot verify a webhook: neither secrets nor trust is given")
    sums = []
    for secret in secrets:
        key = from_base64(secret.removeprefix("whsec_")) if secret.startswith("whsec_") else None
        if not key:
            raise ValueError("cannot verify a webhook: a secret is not of the form whsec_BASE64")
        sums.append(hmac.digest(key, message, "sha256"))
    ok = False
    for signature in signatures.split():
        kind, _, text = signature.partition(",")
        value = from_base64(text)
        if value is None:
            continue
        if kind == "v1":
            for known in sums:
                ok = hmac.compare_digest(known, value) or ok
        if kind == "v1a" and trust is not None and len(value) == 64:
            ok = _signed_by_service(trust, message, value, sent) or ok
    return ok


def _signed_by_service(trust: Trust, message: bytes, signature: bytes, sent: int) -> bool:
    for key_id in trust.keys:
        try:
            public_key = trust.find(key_id, "webhook_signing", sent * 1000)
        except VerifyError:
            continue
        if signed_by(public_key, signature, message):
            return True
    return False
