package console

import "slices"

// routes are the pages.
func (s *Service) routes() {
	s.open("GET /sign-in", showSignIn)
	s.open("POST /sign-in", doSignIn)
	s.open("GET /sign-in/callback", doCallback)
	s.open("GET /sign-in/choose", showChoices)
	s.open("POST /sign-in/choose", doChoose)
	s.open("POST /sign-out", doSignOut)

	s.in("GET ", showOverview)
	s.in("GET /metering.csv", sendMetering)
	s.in("GET /refusals.csv", sendRefusals)
	s.in("GET /plays", showPlays)
	s.in("GET /plays.csv", sendPlays)
	s.in("GET /plays/{receiptId}", showPlay)
	s.in("GET /plays/{receiptId}/proof", sendReceiptProof)

	s.in("GET /rights", showRights)
	s.in("GET /rights.csv", sendRights)
	s.in("GET /rights/{rightId}", showRight)
	s.in("GET /rights/{rightId}/acts.csv", sendActsOn)
	s.in("GET /bases", showBases)
	s.in("GET /bases.csv", sendBases)
	s.in("GET /bases/{basisId}", showBasis)
	s.in("GET /offers", showOffers)
	s.in("GET /offers.csv", sendOffers)
	s.in("GET /offers/{offerId}", showOffer)
	s.in("GET /challenges", showChallenges)
	s.in("GET /challenges.csv", sendChallenges)
	s.in("GET /challenges/{challengeId}", showChallenge)

	s.in("GET /held", showHeld)
	s.in("GET /held.csv", sendHeld)
	s.in("GET /rejected", showRejected)
	s.in("GET /rejected.csv", sendRejected)

	s.in("GET /money", showMoney)
	s.in("GET /money.csv", sendRules)
	s.in("GET /money/payables", showPayables)
	s.in("GET /money/payables.csv", sendPayables)
	s.in("GET /money/payouts", showPayouts)
	s.in("GET /money/payouts.csv", sendPayouts)
	s.in("GET /money/reconciliation", showReconciliation)
	s.in("GET /money/reconciliation.csv", sendReconciliation)
	s.in("GET /money/rules/{ruleId}", showRule)
	s.in("GET /money/counterparties", showCounterparties)
	s.in("GET /money/counterparties.csv", sendCounterparties)
	s.in("GET /money/counterparties/{counterpartyId}", showCounterparty)
	s.in("GET /money/statements", showStatements)
	s.in("GET /money/statements.csv", sendStatements)
	s.in("GET /money/statements/{statementId}", showStatement)
	s.in("GET /money/statements/{statementId}/paper", sendPaper)
	s.in("GET /money/statements/{statementId}/comparison", showComparison)
	s.in("GET /money/statements/{statementId}/comparison.csv", sendComparison)
	s.in("GET /disputes", showDisputes)
	s.in("GET /disputes.csv", sendDisputes)
	s.in("GET /disputes/{disputeId}", showDispute)
	s.in("GET /disputes/{disputeId}/plays.csv", sendDisputedPlays)

	s.in("GET /proof", showProof)
	s.in("GET /proof.csv", sendPacks)
	s.in("GET /proof/packs.zip", sendPackFiles)
	s.in("GET /proof/keys.csv", sendSigners)
	s.in("GET /proof/events", sendEvents)
	s.in("GET /proof/{packId}", showPack)
	s.in("GET /proof/{packId}/pack", sendPack)
	s.in("GET /webhooks", showWebhooks)
	s.in("GET /webhooks.csv", sendWebhooks)
	s.in("GET /kinds", showKinds)
	s.in("GET /kinds/{type}", showKind)
	s.in("GET /webhooks/{webhookId}", showWebhook)
	s.in("GET /keys", showKeys)
	s.in("GET /keys.csv", sendKeys)
	s.in("GET /keys/{keyId}", showKey)
	s.in("GET /requests", showRequests)
	s.in("GET /requests.csv", sendRequests)
	s.in("GET /members", showMembers)
	s.in("GET /members.csv", sendMembers)
	s.in("GET /members/{memberId}", showMember)
	s.in("GET /data", showData)
	s.in("GET /data.csv", sendJobs)
	s.in("GET /data/{jobId}", showJob)
	s.in("GET /erasures", showErasures)
	s.in("GET /erasures.csv", sendErasures)
	s.in("GET /erasures/new", showErase)
	s.in("POST /erasures/new", doErase)
	s.in("GET /erasures/{erasureId}", showErasure)
	s.in("GET /erasures/{erasureId}/certificate", sendCertificate)

	for _, a := range acts() {
		s.in("GET "+a.path, showAct(a))
		s.in("POST "+a.path, doAct(a))
	}
	s.in("GET /", unknownPage)
	s.in("POST /", unknownPage)
}

// acts are all that can be changed here.
func acts() []*act {
	return slices.Concat(rightActs, inboxActs, playActs, ruleActs, moneyActs, statementActs, payeeLinkActs, disputeActs, proofActs, webhookActs, keyActs, memberActs, dataActs)
}

// deeds are what pages say was done.
var deeds = map[string]string{
	"signed-out":           "You have signed out.",
	"link-requested":       "If a member has this address, a mail with a link is on its way. The link works once, for 15 minutes.",
	"basis-registered":     "The basis is registered. Issue a right on it next.",
	"right-issued":         "The right is issued. Nodes accept deliveries on it within seconds.",
	"right-suspended":      "The right is suspended. Below is which nodes know it.",
	"right-resumed":        "The right is in force again.",
	"right-revoked":        "The right is revoked for good.",
	"offer-proposed":       "The offer is made.",
	"offer-accepted":       "The offer is accepted, and the derived right is issued.",
	"offer-countered":      "The counter-offer is made.",
	"offer-rejected":       "The offer is rejected.",
	"offer-withdrawn":      "The offer is withdrawn.",
	"challenge-opened":     "The challenge is open.",
	"challenge-resolved":   "The challenge is resolved.",
	"challenge-withdrawn":  "The challenge is withdrawn.",
	"dismissed":            "They are dismissed.",
	"rule-made":            "The rule is made.",
	"rule-retired":         "The rule is retired.",
	"issuer-set":           "Saved: papers from now on show it.",
	"counterparty-changed": "The counterparty is changed: papers from now on show it.",
	"counterparty-added":   "The counterparty is added. A rule can give it a share.",
	"statement-drafted":    "The draft is made. Look at it, then issue or discard it.",
	"statement-issued":     "The statement is issued and signed. Below are its papers.",
	"statement-discarded":  "The draft is discarded.",
	"statement-voided":     "The statement is voided by a signed credit.",
	"payment-recorded":     "The payment is recorded.",
	"payee-link-revoked":   "The link is revoked. What was downloaded by it stays where it is.",
	"dispute-opened":       "The dispute is open. Its plays are held out of settlement.",
	"dispute-investigated": "It is noted that you look into it.",
	"dispute-responded":    "Your evidence is recorded.",
	"dispute-resolved":     "The dispute is resolved.",
	"sealed":               "What was delivered until now is sealed.",
	"webhook-tested":       "The test event is on its way: load this page again for the attempt.",
	"webhook-changed":      "The webhook is changed.",
	"webhook-deleted":      "The webhook is deleted.",
	"webhook-resent":       "It is on its way again.",
	"webhook-recovering":   "What was missed is on its way.",
	"key-revoked":          "The key is revoked for good.",
	"member-invited":       "The person is invited. A mail says how to sign in.",
	"member-changed":       "The member has the new role from the next request on.",
	"member-removed":       "The member is removed. The member's sessions and links have ended.",
	"export-made":          "The export is prepared. Run it next.",
	"export-running":       "The export runs. Load this page again to see how far it is.",
	"export-cancelled":     "The export is cancelled.",
	"erased":               "The person is being erased. The certificate is here once nothing is left.",
}
