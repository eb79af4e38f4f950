"""A client of a Muniment service: deliveries and their receipts, and the resources under /v1.

See Client, and the README beside it. Requests and answers are dictionaries with the types of document, which has the
members of the service's document, /openapi.json, under the same names. Times are texts, as 2026-10-24T18:00:00Z.

One operation has no method: the erasure of a person, which is for people and not for programs.
"""
from . import document
from .buffer import BufferStats, DeliveryBuffer
from .bufferfile import BufferBrokenError, BufferFullError, BufferInUseError
from .call import File, RetryPolicy
from .canonical import VerifyError
from .client import Client
from .deliver import DeliveredPlay
from .directory import Trust
from .error import MunimentError, error_of_row
from .verify import VerifiedProof, VerifiedReceipt, proof_file, receipt_file, verify_proof, verify_receipt
from .webhook import WEBHOOK_TOLERANCE, WebhookError, WebhookMessage, verify_webhook

__all__ = [
    "WEBHOOK_TOLERANCE", "BufferBrokenError", "BufferFullError", "BufferInUseError", "BufferStats", "Client", "DeliveredPlay", "DeliveryBuffer", "File",
    "MunimentError", "RetryPolicy", "Trust", "VerifiedProof", "VerifiedReceipt", "VerifyError", "WebhookError", "WebhookMessage", "document", "error_of_row",
    "proof_file", "receipt_file", "verify_proof", "verify_receipt", "verify_webhook",
]
