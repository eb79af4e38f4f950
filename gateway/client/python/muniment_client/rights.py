"""Bases, rights, offers and challenges."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import document as d
from .call import Caller, at


def because(reason: str | None) -> dict[str, Any]:
    """The body of requests that may say why."""
    return {"reason": reason} if reason else {}


class Bases:
    """Legal bases, on which rights rest."""

    def __init__(self, caller: Caller):
        self._c = caller

    def create(self, basis: d.NewBasis) -> d.Basis:
        """Registers a basis."""
        return self._c.record("POST", "/v1/bases", "basis", basis)

    def list(self, query: d.ListBasesQuery | None = None) -> Iterator[d.Basis]:
        """Newest first."""
        return self._c.pages("/v1/bases", "bases", query)

    def get(self, basis_id: str) -> d.Basis:
        return self._c.record("GET", at("/v1/bases/", basis_id), "basis")


class Rights:
    """Rights permit deliveries."""

    def __init__(self, caller: Caller):
        self._c = caller

    def issue(self, right: d.NewRight) -> d.Right:
        """Issues a right."""
        return self._c.record("POST", "/v1/rights", "right", right)

    def list(self, query: d.ListRightsQuery | None = None) -> Iterator[d.Right]:
        """Newest first."""
        return self._c.pages("/v1/rights", "rights", query)

    def get(self, right_id: str) -> d.Right:
        return self._c.record("GET", at("/v1/rights/", right_id), "right")

    def provenance(self, right_id: str) -> d.Provenance:
        """What the right rests on and what derives from it."""
        return self._c.data("GET", at("/v1/rights/", right_id, "/provenance"))

    def propagation(self, right_id: str) -> d.RightPropagation:
        """Which nodes know of the last change of the right."""
        return self._c.data("GET", at("/v1/rights/", right_id, "/propagation"))

    def suspend(self, right_id: str, reason: str | None = None) -> d.MovedRight:
        """Stops deliveries until resume."""
        return self._c.data("POST", at("/v1/rights/", right_id, "/suspend"), because(reason))

    def resume(self, right_id: str, reason: str | None = None) -> d.MovedRight:
        """Allows deliveries again."""
        return self._c.data("POST", at("/v1/rights/", right_id, "/resume"), because(reason))

    def revoke(self, right_id: str, reason: str | None = None) -> d.MovedRight:
        """Stops deliveries for good. Deliveries may be receipted until the result, or a later
        propagation, says that the revocation is applied."""
        return self._c.data("POST", at("/v1/rights/", right_id, "/revoke"), because(reason))


class Offers:
    """Offers of a right to another organisation."""

    def __init__(self, caller: Caller):
        self._c = caller

    def propose(self, offer: d.NewOffer) -> d.Offer:
        return self._c.record("POST", "/v1/offers", "offer", offer)

    def list(self, query: d.ListOffersQuery | None = None) -> Iterator[d.Offer]:
        """Newest first."""
        return self._c.pages("/v1/offers", "offers", query)

    def get(self, offer_id: str) -> d.Offer:
        return self._c.record("GET", at("/v1/offers/", offer_id), "offer")

    def counter(self, offer_id: str, offer: d.CounterOffer) -> d.CounteredOffer:
        """Makes a new offer in the opposite direction."""
        return self._c.data("POST", at("/v1/offers/", offer_id, "/counter"), offer)

    def accept(self, offer_id: str) -> d.AcceptedOffer:
        """Issues the right that derives from the offer."""
        return self._c.data("POST", at("/v1/offers/", offer_id, "/accept"))

    def withdraw(self, offer_id: str, reason: str | None = None) -> d.Offer:
        """Takes an offer back, by its proposer."""
        return self._c.record("POST", at("/v1/offers/", offer_id, "/withdraw"), "offer", because(reason))

    def reject(self, offer_id: str, reason: str | None = None) -> d.Offer:
        """Turns an offer down, by its recipient."""
        return self._c.record("POST", at("/v1/offers/", offer_id, "/reject"), "offer", because(reason))


class Challenges:
    """Challenges contest rights."""

    def __init__(self, caller: Caller):
        self._c = caller

    def open(self, challenge: d.NewChallenge) -> d.Challenge:
        """Opens a challenge against a right."""
        return self._c.record("POST", "/v1/challenges", "challenge", challenge)

    def list(self, query: d.ListChallengesQuery | None = None) -> Iterator[d.Challenge]:
        """Newest first."""
        return self._c.pages("/v1/challenges", "challenges", query)

    def get(self, challenge_id: str) -> d.Challenge:
        return self._c.record("GET", at("/v1/challenges/", challenge_id), "challenge")

    def resolve(self, challenge_id: str, how: d.ChallengeResolution) -> d.ResolvedChallenge:
        """Decides a challenge. One that is upheld revokes the right."""
        return self._c.data("POST", at("/v1/challenges/", challenge_id, "/resolve"), how)

    def withdraw(self, challenge_id: str, reason: str | None = None) -> d.Challenge:
        """Ends a challenge without a decision."""
        return self._c.record("POST", at("/v1/challenges/", challenge_id, "/withdraw"), "challenge", because(reason))
