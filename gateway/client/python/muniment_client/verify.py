"""Verification of receipts and proofs without the service. The formats are those of the package comment of sealer."""
from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from typing import Any

from .canonical import (
    VerifyError, canonical, from_base64, from_base64url, has_members, is_name, is_tenant, is_whole, malformed, millis, moment_of, parse, parse_canonical, to_base64url,
)
from .directory import Checkpoint, Trust, signed_by
from .document import InclusionProof, Receipt

_SANDBOX = "sandbox_proof_signing"
#: Of the keys that sign checkpoints, and of those that sign the receipts under them.
_PURPOSES = {"proof_pack_signing": "receipt_signing", _SANDBOX: _SANDBOX}


@dataclasses.dataclass(frozen=True)
class VerifiedReceipt:
    """A receipt whose signature is genuine."""

    receipt: Receipt
    key_id: str
    #: It is of a tenant of the sandbox, and proves itself only.
    sandbox: bool
    #: The event around the receipt, if it was given beside it: tenant, right, substrate and metering, all bound by
    #: the signature. Without it nothing but the receipt is proven.
    event: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class VerifiedProof:
    """An event that is in a tenant's log."""

    event: dict[str, Any]
    #: Of an event that is a delivery.
    receipt: Receipt | None
    tenant_id: str
    leaf_index: int
    tree_size: int
    #: The second in which the checkpoint was sealed, since 1970.
    sealed_at: int
    sandbox: bool


def receipt_file(delivered: Any) -> str:
    """A receipt with its signature as verify_receipt and muniment verify take them: what a caller of deliver or
    deliver_batch keeps."""
    return canonical({"receipt": delivered["receipt"], "signature": delivered["signature"]})


def proof_file(proof: InclusionProof) -> str:
    """A proof, as Receipts.proof returns it, as a file for verify_proof and muniment verify."""
    return canonical({"event": proof["event"], "proof": proof["proof"]})


def verify_receipt(answer: str | bytes, trust: Trust) -> VerifiedReceipt:
    """Verifies a receipt without the service. The answer is JSON with the members receipt and signature, and event if
    there is one: the data of an answer that has them, or the whole answer. What stands beside these is compared
    with the event, and proves nothing where that is missing.

    A receipt of a key that was revoked is refused, as the thief of a key can write any time: verify_proof accepts it
    under a checkpoint from before the revocation. It raises a VerifyError.
    """
    data = _data_of(parse(answer))
    if not has_members(data, "receipt signature", "substrate metering event position sealed"):
        raise malformed("it has no receipt with its signature, or more than an answer has")
    text = canonical(data["receipt"])
    receipt, issued_at = _check_receipt(data["receipt"])
    key_id, signature = _check_signature(data["signature"])
    key = trust.keys.get(key_id)
    sandbox = key is not None and key.purpose == _SANDBOX
    public_key = trust.find(key_id, _SANDBOX if sandbox else "receipt_signing", issued_at)
    if not signed_by(public_key, signature, text.encode()):
        raise VerifyError("signature.invalid", f"receipt {receipt['receiptId']} by key {key_id}")
    if "event" not in data:
        return VerifiedReceipt(receipt, key_id, sandbox)
    event = _check_delivery(canonical(data["event"]))
    stated = event["data"]
    if canonical(stated["receipt"]) != text or canonical(stated["signature"]) != canonical(data["signature"]):
        raise VerifyError("entry.altered", "the event is of another receipt")
    for name in ("substrate", "metering"):
        if name in data and canonical(data[name]) != canonical(stated[name]):
            raise VerifyError("entry.altered", f"the event states another {name}")
    return VerifiedReceipt(receipt, key_id, sandbox, event)


def _data_of(value: Any) -> Any:
    """Takes the data out of an answer."""
    if not isinstance(value, dict) or not value.keys() & {"ok", "data"}:
        return value
    if not has_members(value, "ok data contractVersion") or value["ok"] is not True or value["contractVersion"] != "v1.0":
        raise malformed("it is the answer to a refused request, or none of the service")
    return value["data"]


def _check_signature(value: Any) -> tuple[str, bytes]:
    """The key id and the bytes of a signature."""
    raw = None
    if has_members(value, "algorithm keyId value") and value["algorithm"] == "ed25519" and is_name(value["keyId"]):
        raw = from_base64url(value["value"], 64)
    if raw is None:
        raise malformed("the signature is malformed")
    return value["keyId"], raw


def _is_text_or_null(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _check_receipt(r: Any) -> tuple[Receipt, int]:
    """Checks the form of a receipt and what it says twice; returns it with its moment."""
    if not has_members(r, "correlationId dwellMs issuedAt nonce receiptId renderedAt spatialAnchorId spatialPlacementId version witness"):
        raise malformed("the receipt is malformed")
    issued_at, rendered_at = millis(r["issuedAt"]), millis(r["renderedAt"])
    fits = (
        all(_is_text_or_null(r[name]) for name in ("correlationId", "spatialPlacementId", "witness")) and is_name(r["spatialAnchorId"])
        and r["version"] == "1" and type(r["dwellMs"]) in (int, float) and 0 <= r["dwellMs"] <= 2**36 and from_base64url(r["nonce"], 16) is not None
    )
    if not fits or issued_at is None or rendered_at is None or rendered_at > issued_at or moment_of(r["receiptId"], "rcp_") != issued_at:
        raise malformed("the receipt is malformed")
    return r, issued_at


def _altered(what: str) -> VerifyError:
    return VerifyError("entry.altered", what)


def _is_hash(value: Any) -> bool:
    return from_base64url(value, 32) is not None


def _is_ref(value: Any) -> bool:
    return has_members(value, "id kind") and is_name(value["id"]) and is_name(value["kind"])


def _check_event(text: str) -> dict[str, Any]:
    """Checks the form of an event, and returns it."""
    try:
        e = parse_canonical(text)
    except VerifyError as err:
        raise _altered(str(err)) from None
    fits = (
        has_members(e, "actor at data eventId privateCommitment subject tenantId type v") and _is_ref(e["actor"]) and _is_ref(e["subject"])
        and (e["privateCommitment"] is None or _is_hash(e["privateCommitment"])) and is_tenant(e["tenantId"]) and is_name(e["type"])
        and type(e["v"]) in (int, float) and e["v"] == 1 and isinstance(e["data"], dict) and len(text.encode()) <= 1 << 20
        and millis(e["at"]) is not None and moment_of(e["eventId"], "evt_") == millis(e["at"])
    )
    if not fits:
        raise _altered("the event is malformed")
    return e


def _check_delivery(text: str) -> dict[str, Any]:
    """Checks all of a delivery that can be checked without a key."""
    e = _check_event(text)
    d = e["data"]
    fits = (
        e["type"] == "delivery.recorded"
        and has_members(d, "basisId gate metering receipt rightId rightRevision signature substrate", "idempotency identity")
        and has_members(d["gate"], "ruleset version") and all(map(is_name, d["gate"].values()))
        and all(is_name(d[name]) for name in ("basisId", "rightId", "substrate")) and is_whole(d["rightRevision"])
        and ("idempotency" not in d or _is_hash(d["idempotency"]) and "identity" not in d) and ("identity" not in d or _is_identity(d["identity"]))
    )
    if not fits:
        raise _altered("the event is no delivery")
    try:
        receipt, _ = _check_receipt(d["receipt"])
        _check_signature(d["signature"])
    except VerifyError as err:
        raise _altered(str(err)) from None
    bare = {**e, "data": {name: value for name, value in d.items() if name not in ("receipt", "signature")}}
    node, _, bound = (receipt["witness"] or "").removeprefix("edge:").rpartition(":")
    if not (receipt["witness"] or "").startswith("edge:") or node == "" or bound != to_base64url(hashlib.sha256(canonical(bare).encode()).digest()):
        raise VerifyError("witness.mismatch", "the receipt is of another event")
    if e["eventId"][4:] != receipt["receiptId"][4:] or e["subject"] != {"kind": "right", "id": d["rightId"]} or not _is_metering(d["metering"], receipt["dwellMs"]):
        raise _altered("the event contradicts itself")
    return e


def _is_identity(value: Any) -> bool:
    if not has_members(value, "hash", "day") or not _is_hash(value["hash"]):
        return False
    return "day" not in value or isinstance(value["day"], str) and millis(value["day"] + "T00:00:00.000Z") is not None


_COMPLETIONS = ("none", "started", "first_quartile", "midpoint", "third_quartile", "complete")


def _is_metering(m: Any, dwell: float) -> bool:
    if not has_members(m, "basis completion impressions metered quantityMs reason reasons"):
        return False
    if not is_name(m["basis"]) or m["completion"] not in _COMPLETIONS or not isinstance(m["reasons"], list) or not all(map(is_name, m["reasons"])):
        return False
    impressions = m["impressions"]
    if not is_whole(m["quantityMs"]) or not isinstance(impressions, str) or re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]{0,3}[1-9])?", impressions) is None:
        return False
    if m["metered"] is True:
        return (
            m["reason"] == "METERED" and m["reasons"] == [] and m["quantityMs"] == math.floor(dwell) and impressions != "0" and len(impressions) <= 10
            and float(impressions) <= 10_000
        )
    return m["metered"] is False and m["reason"] != "METERED" and m["reasons"][:1] == [m["reason"]] and m["quantityMs"] == 0 and impressions == "0"


def verify_proof(answer: str | bytes, trust: Trust) -> VerifiedProof:
    """Verifies, without the service, that an event is in a tenant's log: an answer of /v1/receipts/{id}/proof as it
    came, its data, or what proof_file makes of it. Where the event is a delivery, its receipt is verified as well. It
    raises a VerifyError.

    It proves what stood in the log when the checkpoint was sealed, and trusts the signer of that. That two callers
    were shown one log is what muniment verify and witnesses of the log are for.
    """
    try:
        event, index, hashes, note = _read_proof(answer if isinstance(answer, str) else answer.decode())
    except UnicodeError:
        raise malformed("it is no UTF-8") from None
    checkpoint = Checkpoint(note)
    signer = checkpoint.signer(trust, _PURPOSES)
    second = checkpoint.second(signer.public_key)
    # The second is cut, and may so be just before the key's window.
    just = signer.not_before // 1000 == second
    trust.find(signer.key_id, signer.purpose, signer.not_before if just else second * 1000)
    leaf = hashlib.sha256(b"\0" + event.encode()).digest()
    if _root_of(index, checkpoint.size, leaf, hashes) != checkpoint.root:
        raise VerifyError("inclusion.mismatch", f"the event is not leaf {index} of {checkpoint.size}")
    sealed_by = second * 1000 + 999
    e, receipt = _check_event(event), None
    if e["type"] == "delivery.recorded":
        e = _check_delivery(event)
        receipt, issued_at = _check_receipt(e["data"]["receipt"])
        key_id, signature = _check_signature(e["data"]["signature"])
        public_key = trust.find(key_id, _PURPOSES[signer.purpose], issued_at, sealed_by)
        if not signed_by(public_key, signature, canonical(receipt).encode()):
            raise VerifyError("signature.invalid", f"receipt {receipt['receiptId']} by key {key_id}")
    if (millis(e["at"]) or 0) > sealed_by:
        raise VerifyError("entry.after_seal", "the event is younger than the checkpoint")
    if "muniment/" + e["tenantId"] != checkpoint.origin:
        raise VerifyError("tenant.mismatch", "the event is of another tenant")
    return VerifiedProof(e, receipt, e["tenantId"], index, checkpoint.size, second, signer.purpose == _SANDBOX)


def _read_proof(answer: str) -> tuple[str, int, list[bytes], str]:
    """Reads an event and its C2SP tlog-proof, whose spelling is fixed: the event is the leaf, byte for byte."""
    text = answer.removesuffix("\n")
    head, tail = '{"ok":true,"data":', ',"contractVersion":"v1.0"}'
    if text.startswith(head) and text.endswith(tail):
        text = text[len(head) : -len(tail)]
    # No JSON string holds this: its quotes have a backslash before them.
    start, found, quoted = text.rpartition(',"proof":')
    event = start.removeprefix('{"event":')
    if found == "" or not start.startswith('{"event":{') or not quoted.endswith('"}'):
        raise malformed("it is no event with its proof")
    parse(event)
    proof = parse(quoted[:-1])
    if not isinstance(proof, str) or canonical(proof) != quoted[:-1]:
        raise malformed("the proof is no text")
    above, gap, note = proof.partition("\n\n")
    title, *lines = above.split("\n")
    place = re.fullmatch("index (0|[1-9][0-9]{0,15})", lines[0]) if lines else None
    hashes = [from_base64(line, 32) for line in lines[1:]]
    if gap == "" or title != "c2sp.org/tlog-proof@v1" or place is None or len(hashes) > 63 or None in hashes:
        raise malformed("the proof is malformed")
    return event, int(place[1]), [h for h in hashes if h is not None], note


def _root_of(index: int, size: int, leaf: bytes, hashes: list[bytes]) -> bytes | None:
    """The root that an RFC 6962 inclusion proof leads to; None if it has not as many hashes as it needs."""
    if index >= size:
        return None
    node, at, last = leaf, index, size - 1
    for other in hashes:
        if last == 0:
            return None
        if at % 2 == 1 or at == last:
            node = hashlib.sha256(b"\1" + other + node).digest()
            while at % 2 == 0 and at > 0:
                at, last = at // 2, last // 2
        else:
            node = hashlib.sha256(b"\1" + node + other).digest()
        at, last = at // 2, last // 2
    return node if last == 0 else None
