"""Key directories, the root key that they are trusted by, and signed notes."""
from __future__ import annotations

import hashlib
import math
import re
from typing import Any, NamedTuple

from .canonical import VerifyError, canonical, from_base64, from_base64url, has_members, is_name, is_tenant, malformed, millis, parse_canonical


def signed_by(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether an Ed25519 signature is by a key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


class Note(NamedTuple):
    """A C2SP signed note: its text with the last newline, and its signatures with the key hashes before them."""

    text: str
    signatures: list[tuple[str, bytes]]


def read_note(note: str) -> Note:
    text, gap, below = note.rpartition("\n\n")
    lines = below.split("\n")
    if gap == "" or lines.pop() != "" or not 1 <= len(lines) <= 100:
        raise malformed("it is no signed note")
    signatures = []
    for line in lines:
        fields = re.fullmatch(r"— ([^\s+]+) ([^\s]+)", line)
        value = from_base64(fields[2]) if fields else None
        if fields is None or value is None or len(value) <= 4:
            raise malformed("a signature of a note is malformed")
        signatures.append((fields[1], value))
    if len({(name, value[:4]) for name, value in signatures}) < len(signatures):
        raise malformed("two signatures of a note are by one key")
    return Note(text + "\n", signatures)


_PLAIN, _TIMED = b"\x01", b"\x04"  # a signature of the text; cosignature/v1, which states a time


def key_hash(name: str, kind: bytes, public_key: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + kind + public_key).digest()[:4]


def is_signed(note: Note, place: int, name: str, public_key: bytes) -> bool:
    """Whether the signature at a place of a note is by a key under a name."""
    signer, value = note.signatures[place]
    if signer != name or value[:4] != key_hash(name, _PLAIN, public_key) or len(value) != 68:
        return False
    return signed_by(public_key, value[4:], note.text.encode())


class Key(NamedTuple):
    """A key of a directory. Times are milliseconds; an end that is open is infinite."""

    key_id: str
    public_key: bytes
    purpose: str
    not_before: float
    not_after: float
    revoked_at: float

    def fault(self, at: float, sealed_at: float = math.inf) -> str:
        """Why it may not have signed at a moment. A revoked key is refused, as its thief can write any moment,
        unless a checkpoint covered the signature before that."""
        if not self.not_before <= at < self.not_after:
            return "key.outside_window"
        return "key.revoked" if self.revoked_at != math.inf and (sealed_at >= self.revoked_at or at >= self.revoked_at) else ""


_P = 2**255 - 19
_Q = 0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_WEAK = (0, 1, _P - 1, _Q, _P - _Q)


def _is_sound(public_key: bytes) -> bool:
    """Whether a public key is spelt canonically, and none that anybody can sign with."""
    y = int.from_bytes(public_key, "little") % 2**255
    return y < _P and y not in _WEAK


def _invalid(what: object) -> VerifyError:
    return VerifyError("directory.invalid", f"cannot trust the key directory: {what}")


class Trust:
    """What verification rests on: the keys that a service signs with. It is immutable."""

    def __init__(self, root: str | None, directory: bytes | str):
        """Reads a key directory, as Client.key_directory returns it, which has to be signed under the root key, a
        C2SP vkey that was got on another way than the directory. Without a root the directory is taken on
        trust, wherever it is from: a weaker ground."""
        try:
            text = directory if isinstance(directory, str) else directory.decode()
            d = parse_canonical(text.removesuffix("\n"))
        except (UnicodeDecodeError, VerifyError) as err:
            raise _invalid(err) from None
        if not has_members(d, "delegation issuedAt keys signature snapshotId") or not isinstance(d["keys"], list) \
                or not is_name(d["snapshotId"]) or not is_name(d["delegation"]):
            raise _invalid("it is none")
        keys = {}
        for listed in d["keys"]:
            key = _read_key(listed)
            if key.key_id in keys:
                raise _invalid(f"key {key.key_id} is listed twice")
            keys[key.key_id] = key
        end = _check_signature(d, keys, root)
        # After the end of its delegation the directory is valid for no key.
        self.keys: dict[str, Key] = {id: key._replace(not_after=min(key.not_after, end)) for id, key in keys.items()}

    def find(self, key_id: str, purpose: str, at: float, sealed_at: float = math.inf) -> bytes:
        """The public key, if it may have signed for a purpose at a moment."""
        key = self.keys.get(key_id)
        code = "key.unknown" if key is None else "key.purpose" if key.purpose != purpose else key.fault(at, sealed_at)
        if key is None or code:
            raise VerifyError(code, f"key {key_id} at {at:.0f} ms")
        return key.public_key


def _read_key(listed: Any) -> Key:
    if not has_members(listed, "algorithm keyId notAfter notBefore publicKey purpose revokedAt"):
        raise _invalid("a key is malformed")
    public_key = from_base64url(listed["publicKey"], 32)
    not_before = millis(listed["notBefore"])
    ends = [math.inf if listed[name] is None else millis(listed[name]) for name in ("notAfter", "revokedAt")]
    if public_key is None or not_before is None or listed["algorithm"] != "ed25519" or not is_name(listed["purpose"]) or None in ends:
        raise _invalid("a key is malformed")
    if not _is_sound(public_key):
        raise _invalid("anybody can sign with one of its keys")
    key_id = hashlib.sha256(public_key).hexdigest()[:32]
    if listed["keyId"] != key_id:
        raise _invalid("the id of a key is that of another")
    return Key(key_id, public_key, listed["purpose"], not_before, *ends)  # type: ignore[arg-type]


def _check_signature(d: dict[str, Any], keys: dict[str, Key], root: str | None) -> float:
    """Checks who has signed a directory, and returns the end of what the root has delegated."""
    signature, issued_at = d["signature"], millis(d["issuedAt"])
    key, value = None, None
    if has_members(signature, "algorithm keyId value") and signature["algorithm"] == "ed25519" and isinstance(signature["keyId"], str):
        key, value = keys.get(signature["keyId"]), from_base64url(signature["value"], 64)
    if key is None or value is None or issued_at is None or key.purpose != "directory_signing" or key.fault(issued_at):
        raise _invalid("its key may not sign it")
    unsigned = {name: of for name, of in d.items() if name != "signature"}
    if not signed_by(key.public_key, value, canonical(unsigned).encode()):
        raise _invalid("the signature of its key is invalid")
    try:
        note = read_note(d["delegation"])
    except VerifyError as err:
        raise _invalid(err) from None
    lines = note.text.split("\n")
    if len(lines) != 6 or lines[:2] != ["muniment/directory-key.v1", key.key_id] or from_base64url(lines[2], 32) != key.public_key or lines[5] != "":
        raise _invalid("the delegation is not for its key")
    begin, end = millis(lines[3]), millis(lines[4])
    if begin is None or end is None or not begin <= issued_at < end:
        raise _invalid("the delegation does not cover the moment of issue")
    if root is not None and not is_signed(note, 0, *_read_root(root)):
        raise _invalid("the root key has not signed the delegation")
    return end


def _read_root(vkey: str) -> tuple[str, bytes]:
    """Reads a C2SP vkey: its name and key."""
    fields = re.fullmatch(r"([^\s+]+)\+([0-9a-f]{8})\+([^\s]+)", vkey.strip())
    key = from_base64(fields[3], 33) if fields else None
    if fields is None or key is None or key[:1] != _PLAIN or not _is_sound(key[1:]) or key_hash(fields[1], _PLAIN, key[1:]).hex() != fields[2]:
        raise _invalid("the root key is no C2SP vkey")
    return fields[1], key[1:]


_SEAL = "muniment/sealed"


class Checkpoint:
    """A checkpoint of a tenant's log, whose signatures were not verified yet."""

    def __init__(self, text: str):
        self.note = read_note(text)
        lines = self.note.text.split("\n")
        root = from_base64(lines[2], 32) if len(lines) == 4 else None
        self.origin = lines[0]
        if root is None or lines[3] != "" or not self.origin.startswith("muniment/") or not is_tenant(self.origin[9:]) \
                or re.fullmatch("0|[1-9][0-9]{0,15}", lines[1]) is None:
            raise malformed("it is no checkpoint of a tenant")
        self.size, self.root = int(lines[1]), root
        names = [name for name, _ in self.note.signatures[:2]]
        if names != [self.origin, _SEAL] or len(self.note.signatures[1][1]) != 76:
            raise malformed("the checkpoint is not signed by its log, or does not say when it was sealed")

    def signer(self, trust: Trust, purposes: Any) -> Key:
        """The key that has signed it, by its hash."""
        code = "key.unknown"
        for key in trust.keys.values():
            if key_hash(self.origin, _PLAIN, key.public_key) == self.note.signatures[0][1][:4]:
                if key.purpose in purposes:
                    return key
                code = "key.purpose"
        raise VerifyError(code, f"the checkpoint of {self.origin} is signed by another key")

    def second(self, public_key: bytes) -> int:
        """When a key has sealed it. Both of its signatures have to be by the key."""
        seal = self.note.signatures[1][1]
        second = int.from_bytes(seal[4:12], "big")
        message = f"cosignature/v1\ntime {second}\n{self.note.text}".encode()
        if not is_signed(self.note, 0, self.origin, public_key) or seal[:4] != key_hash(_SEAL, _TIMED, public_key) \
                or second >= 253402300800 or not signed_by(public_key, seal[12:], message):
            raise VerifyError("signature.invalid", f"the checkpoint of {self.origin} is not signed by its key")
        return second
