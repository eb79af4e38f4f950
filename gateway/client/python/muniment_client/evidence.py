"""Receipts, events, packs and mappings."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from . import document as d
from .call import Caller, File, at


class Receipts:
    """What deliveries were answered with."""

    def __init__(self, caller: Caller):
        self._c = caller

    def list(self, query: d.ListReceiptsQuery | None = None) -> Iterator[d.FoundReceipt]:
        """Newest first. The service finds a receipt shortly after it was issued, and not at once."""
        return self._c.pages("/v1/receipts", "receipts", query)

    def file(self, format: Literal["csv", "ndjson", "parquet"], query: d.ListReceiptsQuery | None = None) -> File:
        """All receipts, as a file with a row each and the columns that analysts read."""
        return self._c.stream("/v1/receipts", {**(query or {}), "format": format})

    def get(self, receipt_id: str) -> d.LoggedReceipt:
        return self._c.data("GET", at("/v1/receipts/", receipt_id))

    def proof(self, receipt_id: str, checkpoint: Literal["pack", "latest"] = "pack") -> d.InclusionProof:
        """The proof that a receipt is in the tenant's log, under the checkpoint of the pack that holds it,
        or of the latest one. proof_file makes a file of it, which verify_proof and muniment verify take.
        A receipt that is not sealed yet is a conflict."""
        return self._c.data("GET", at("/v1/receipts/", receipt_id, "/proof"), query={"checkpoint": checkpoint})


class Events:
    """All that has happened to a tenant."""

    def __init__(self, caller: Caller):
        self._c = caller

    def list(self, query: d.ListEventsQuery | None = None) -> Iterator[d.LoggedEvent]:
        """Newest first, unless the query says otherwise."""
        return self._c.pages("/v1/events", "events", query)

    def export(self, query: d.ExportEventsQuery | None = None) -> File:
        """A signed run of events, for muniment verify."""
        return self._c.stream("/v1/events/export", query)


class ProofPacks:
    """Signed files of events."""

    def __init__(self, caller: Caller):
        self._c = caller

    def seal(self) -> d.SealedPacks:
        """Seals every event that was acknowledged before the call, in as many steps as it takes, and
        returns the headers of all packs, oldest first. Where nothing was new that is the last pack. What
        is still pending, in the last step, is in no pack. An error leaves the packs that were sealed."""
        packs = []
        step = self.seal_step()
        while step["more"]:
            packs += step["packs"]
            step = self.seal_step(step["upTo"])
        return {**step, "packs": packs + step["packs"]}

    def seal_step(self, up_to: str | None = None) -> d.SealedPacks:
        """One step of seal: up_to is that of the step before."""
        return self._c.data("POST", "/v1/proof-packs/seal", {"upTo": up_to} if up_to else {})

    def list(self, query: d.ListProofPacksQuery | None = None) -> Iterator[d.ProofPack]:
        """Newest last."""
        return self._c.pages("/v1/proof-packs", "packs", query)

    def get(self, pack_id: str) -> d.ProofPackData:
        """A pack without its entries."""
        return self._c.data("GET", at("/v1/proof-packs/", pack_id))

    def bundle(self, pack_id: str) -> File:
        """A pack, byte for byte as it was sealed."""
        return self._c.stream(at("/v1/proof-packs/", pack_id, "/bundle"))

    def checkpoint(self) -> str:
        """The newest checkpoint of the tenant's log, a C2SP signed note."""
        return self._c.record("GET", "/v1/proof-packs/checkpoint", "checkpoint")

    def consistency(self, pack_id: str, from_pack_id: str) -> d.ConsistencyProof:
        """Proves that the log of a pack only added to that of an earlier one."""
        return self._c.data("GET", at("/v1/proof-packs/", pack_id, "/consistency"), query={"from": from_pack_id})


class Mappings:
    """What ids of vendors stand for."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, mapping: d.NewMapping) -> d.Mapping:
        return self._c.record("POST", "/v1/delivery/mappings", "mapping", mapping)

    def list(self, query: d.ListMappingsQuery | None = None) -> Iterator[d.Mapping]:
        """Newest first."""
        return self._c.pages("/v1/delivery/mappings", "mappings", query)

    def retire(self, mapping_id: str) -> d.RetiredMapping:
        """Ends a mapping."""
        return self._c.data("DELETE", at("/v1/delivery/mappings/", mapping_id))

    def import_(self, text: bytes) -> d.Import:
        """Makes many mappings, of CSV with a header line or of JSON lines: at most 5000 lines and 1 MiB.
        Each line is judged by itself."""
        kind = "application/x-ndjson" if text.startswith(b"{") else "text/csv"
        return self._c.data("POST", "/v1/delivery/mappings/import", text, Content_Type=kind)
