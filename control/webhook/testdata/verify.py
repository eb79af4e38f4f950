"""Verifies webhooks as their receivers would, by libraries that are not ours.

Each line of the input is a message with the secret and the public key to verify it by.
"""

import base64
import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError


def verdicts(m):
    """Whether v1 and v1a are good."""
    headers = {"webhook-id": m["id"], "webhook-timestamp": m["at"], "webhook-signature": m["signature"]}
    try:
        Webhook(m["secret"]).verify(m["body"], headers)
        v1 = True
    except WebhookVerificationError:
        v1 = False
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(m["public"].removeprefix("whpk_"), validate=True))
    v1a = False
    for kind, signature in (s.split(",", 1) for s in m["signature"].split(" ")):
        if kind == "v1a":
            try:
                key.verify(base64.b64decode(signature), f"{m['id']}.{m['at']}.{m['body']}".encode())
                v1a = True
            except InvalidSignature:
                pass
    return v1, v1a


for line in sys.stdin:
    print(*verdicts(json.loads(line)))
