// Package settle owns counterparties and settlement rules: who is paid, for what, and how much.
// Rating itself is in sealer/rate.
//
// A rule takes effect by its event. Packs are rated by the rules whose events are in the tenant's
// log, not by the database at the moment of sealing. So every process that seals computes the same
// amounts, also after a crash or a restore, and anyone who holds the packs can recompute them. The
// database keeps the records to answer requests and to check new ones. A rule that rating can't
// read never becomes an event, because it would stop its tenant from sealing.
//
// A rule applies to receipts by the time of their rendering. Its window may begin in the past: then
// it rates late receipts, in packs none that is already sealed, in statements all that none states yet.
// A request to change an ACTIVE rule replaces it as a whole. Sealed packs stay as they are, and what is
// stated keeps the rule as it was. Retiring a rule ends
// its window now; a window has at least one millisecond, so a rule that has not begun keeps its
// first. A RETIRED rule is never changed. A tenant has at most 1,000 rules, retired ones included,
// because each of its packs repeats them all.
//
// A counterparty that gets a share from an active rule stays ACTIVE and keeps its currency. Its
// other fields may be changed at any time, even when it is INACTIVE: an account may need a
// correction before older debts are paid. An INACTIVE counterparty never becomes ACTIVE again.
//
// The events are counterparty.created, .changed and .deactivated, and settlement_rule.created,
// .changed and .retired. Their data is the record. A request that changes nothing emits no event.
// The record of a counterparty is in events without legal name, address, tax number, e-mail address and
// payoutRef, which may be personal data, because events are never erased. The name is in events, so it must not be a person's.
//
// Replay brings counterparties and rules of a restored older database to the log's state.
//
// The response to an invalid record lists all of its faults. Changes run one at a time and the last
// one wins: no request has to name the revision that its caller has seen.
package settle
