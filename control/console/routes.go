package console

import "slices"

// routes are the pages.
func (s *Service) routes() {
	s.open("GET /sign-in", showSignIn)
	s.open("POST /sign-in", doSignIn)
	s.open("POST /sign-out", doSignOut)

	s.in("GET ", showOverview)
	s.in("GET /metering.csv", sendMetering)
	s.in("GET /plays", showPlays)
	s.in("GET /plays.csv", sendPlays)
	s.in("GET /plays/{receiptId}", showPlay)
	s.in("GET /plays/{receiptId}/proof", sendReceiptProof)

	s.in("GET /rights", showRights)
	s.in("GET /rights.csv", sendRights)
	s.in("GET /rights/{rightId}", showRight)
	s.in("GET /bases", showBases)
	s.in("GET /bases.csv", sendBases)
	s.in("GET /bases/{basisId}", showBasis)
	s.in("GET /offers", showOffers)
	s.in("GET /offers.csv", sendOffers)
	s.in("GET /offers/{offerId}", showOffer)
	s.in("GET /challenges", showChallenges)
	s.in("GET /challenges.csv", sendChallenges)
	s.in("GET /challenges/{challengeId}", showChallenge)

	for _, a := range acts() {
		s.in("GET "+a.path, showAct(a))
		s.in("POST "+a.path, doAct(a))
	}
	s.in("GET /", unknownPage)
	s.in("POST /", unknownPage)
}

// acts are all that can be changed here.
func acts() []*act { return slices.Concat(rightActs, inboxActs) }

// deeds are what pages say was done.
var deeds = map[string]string{
	"signed-out":          "You have signed out.",
	"basis-registered":    "The basis is registered. Issue a right on it next.",
	"right-issued":        "The right is issued. Nodes accept deliveries on it within seconds.",
	"right-suspended":     "The right is suspended. Below is which nodes know it.",
	"right-resumed":       "The right is in force again.",
	"right-revoked":       "The right is revoked for good.",
	"offer-proposed":      "The offer is made.",
	"offer-accepted":      "The offer is accepted, and the derived right is issued.",
	"offer-countered":     "The counter-offer is made.",
	"offer-rejected":      "The offer is rejected.",
	"offer-withdrawn":     "The offer is withdrawn.",
	"challenge-opened":    "The challenge is open.",
	"challenge-resolved":  "The challenge is resolved.",
	"challenge-withdrawn": "The challenge is withdrawn.",
}
