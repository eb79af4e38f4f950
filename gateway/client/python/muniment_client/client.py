"""The client."""
from __future__ import annotations

import ssl
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import account, evidence, rights, settlement
from . import document as d
from .call import Caller, RetryPolicy, Settings, check_key
from .deliver import DeliveredPlay, deliver, deliver_batch
from .version import VERSION


class Client:
    """Calls one service with one API key. It is safe for concurrent use.

    - A call that returns was answered by the service. For a delivery that means that its receipt is
      durable.
    - A call is made again only where that is safe: each POST carries an Idempotency-Key, by which the
      service knows a second attempt, and rows of a batch are known by their identity. A request that
      the service refuses for what is in it is not tried again.
    - A call raises a MunimentError, unless nothing was sent: a ValueError or TypeError where an argument
      is wrong, or what the function key has raised.
    - What does not come from the service, such as the error page of a proxy, is never taken for an answer
      of it. Redirects are not followed, as they would send the key elsewhere.
    """

    def __init__(
        self,
        url: str,
        key: str | Callable[[], str],
        *,
        timeout: float = 60,
        deadline: float | None = None,
        retry: RetryPolicy = RetryPolicy(),
        user_agent: str = f"muniment-python/{VERSION}",
        context: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """Checks the configuration. Nothing is sent.

        url of the service, as https://muniment.example. It may have a path, which precedes /v1.
        key is the API key, or a function that returns it, for keys that are rotated or kept elsewhere; it
        is called for each attempt, concurrently, and should keep what it has read.
        timeout, in seconds, of one attempt, until its answer is read; of a file, of each part.
        deadline, in seconds, of a call with all its attempts and pauses.
        context of TLS: the system's certificates by default.
        now and sleep are for tests.
        """
        base = urllib.parse.urlsplit(url)
        if base.scheme not in ("http", "https") or not base.hostname or base.query or base.fragment or base.username is not None:
            raise ValueError(f"url {url!r} is invalid: it must be like https://muniment.example")
        if isinstance(key, str):
            check_key(key)
        if not timeout > 0 or deadline is not None and not deadline > 0:
            raise ValueError("timeout or deadline is not above 0")
        if not user_agent.isprintable():
            raise ValueError("user_agent has more than one line")
        get_key = key if callable(key) else lambda: key
        self._use(Caller(Settings(base, get_key, timeout, deadline, retry, user_agent, context, now, sleep)))

    def _use(self, caller: Caller) -> None:
        self._c = caller
        self.api_keys = account.ApiKeys(caller)
        self.members = account.Members(caller)
        self.bases = rights.Bases(caller)
        self.rights = rights.Rights(caller)
        self.offers = rights.Offers(caller)
        self.challenges = rights.Challenges(caller)
        self.receipts = evidence.Receipts(caller)
        self.events = evidence.Events(caller)
        self.proof_packs = evidence.ProofPacks(caller)
        self.mappings = evidence.Mappings(caller)
        self.metering = settlement.Metering(caller)
        self.settlement_rules = settlement.SettlementRules(caller)
        self.counterparties = settlement.Counterparties(caller)
        self.statements = settlement.Statements(caller)
        self.payables = settlement.Payables(caller)
        self.payee_links = settlement.PayeeLinks(caller)
        self.disputes = settlement.Disputes(caller)
        self.webhooks = account.Webhooks(caller)
        self.dsar = account.Dsar(caller)
        self.erasures = account.Erasures(caller)

    def having(self, *, idempotency_key: str | None = None, deadline: float | None = None, retry: RetryPolicy | None = None) -> Client:
        """The same client with other options, on the same connections.

        idempotency_key is for one change: 1 to 255 visible ASCII characters. A caller that may be killed
        before it has the answer keeps the key, and makes the same call with it again within 24 hours: it gets
        the first answer. With another call the answer is a conflict.
        """
        changed: dict[str, Any] = {"idempotency_key": idempotency_key, "deadline": deadline, "retry": retry}
        own = object.__new__(Client)
        own._use(self._c.having(**{name: value for name, value in changed.items() if value is not None}))
        return own

    def close(self) -> None:
        """Closes connections that are not in use."""
        self._c.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def contract(self) -> d.Contract:
        """Which version of the service answers, and by which rules. It needs no key."""
        return self._c.data("GET", "/v1")

    def health(self) -> d.Health:
        """The service's own word that it answers. It needs no key."""
        return self._c.data("GET", "/v1/healthz")

    def tenant(self) -> d.TenantData:
        """The tenant of the key, its developer and the key itself."""
        return self._c.data("GET", "/v1/tenant")

    def deliver(self, delivery: d.Observation, idempotency_key: str | None = None) -> DeliveredPlay:
        """Observes a delivery as of now, and returns its receipt, which is durable then.

        idempotency_key names the play: two deliveries with one key and the same content count once within
        24 hours. The default is a random one.

        A delivery that the constraint gate refuses is a precondition with the violations, one on a right that
        is not ACTIVE is a conflict. After an error whose outcome is unknown it may have been recorded all
        the same: calling again with the idempotency_key of the error does not record it twice.
        """
        return deliver(self._c, delivery, idempotency_key)

    def deliver_batch(self, rows: Iterable[d.Row]) -> Iterator[d.RowResult]:
        """Delivers plays as of the time when they were shown, up to 30 days ago. Yields a result for each row,
        in their order, as batches are answered; rows are read as far as the next batch needs them.

        Give each row a rowId, unique in the tenant, or with vendor for that vendor: without one, two plays of
        one anchor with the same playedAt are one.

        A row that is rejected because a part of the service is away is sent again, as often as the RetryPolicy
        says. Any other rejected row is no error of the call: see error_of_row. After an error, the rows that
        no result was yielded for may be sent again, as one that was recorded is a duplicate.
        """
        return deliver_batch(self._c, rows)

    def held(self, query: d.ListHeldRowsQuery | None = None) -> Iterator[d.HeldRow]:
        """Rows that wait for a mapping, or have waited, newest first."""
        return self._c.pages("/v1/delivery/held", "held", query)

    def rejected(self) -> Iterator[d.RejectedPlay]:
        """The rejected plays of players that post by themselves, newest first."""
        return self._c.pages("/v1/delivery/rejected", "rejected")

    def dismiss_rejected(self, *ids: str) -> d.Dismissed:
        """Deletes rejected plays that were looked at, at most 5,000 at once."""
        return self._c.data("POST", "/v1/delivery/rejected/dismiss", {"rejectedIds": list(ids)})

    def new_beacon(self, beacon: d.NewBeacon) -> d.BeaconURL:
        """Makes a URL for a player that can only call one: each call of it with a new eid is a play."""
        return self._c.data("POST", "/v1/delivery/beacons", beacon)

    def settlement(self, query: d.GetSettlementQuery | None = None) -> d.Settlement:
        """A page of what receipts are worth, by the rules as they are now. Its totals are over all lines."""
        return self._c.data("GET", "/v1/settlement", query=query)

    def reconciliation(self, query: d.ReconcileSettlementQuery | None = None) -> d.Reconciliation:
        """Whether packs, warehouse and statements agree about what was rendered in a window."""
        return self._c.data("GET", "/v1/settlement/reconciliation", query=query)

    def key_directory(self) -> bytes:
        """Every key that the service ever signed with, as Trust takes it. Fetch it again at times: it says
        which keys were revoked."""
        with self._c.stream("/.well-known/muniment/keys.json") as file:
            return file.read()
