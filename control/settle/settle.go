// Package settle owns counterparties and settlement rules: who is paid, and for what how
// much. Rating itself is in control/settle/rate.
//
// A rule takes effect by its event. Packs are rated by the rules whose events stand in
// the tenant's log, not by what the database says at the moment of sealing: so every process
// that seals computes the same amounts, also after a crash or a restore, and a stranger with
// the packs can recompute them. The database keeps the records to answer requests for them,
// and to check new ones. A rule that rating could not read never becomes an
// event: it would keep its tenant from sealing.
//
// A rule says from when on it applies to what was rendered, which may be in the past: it
// then rates late receipts, but none that is in a pack already. An ACTIVE rule may be changed
// as a whole, which says nothing about what was sealed or stated before. Retiring it ends its
// window now; a window holds a millisecond at least, so one that has not begun keeps its
// first. A RETIRED rule is never changed. A tenant has at most 1,000 rules, retired ones too,
// as each of its packs repeats them.
//
// A counterparty that an active rule gives a share stays ACTIVE and keeps its currency. What
// else is known of it may be changed at any time, also after it was deactivated: an account may have to be
// corrected for what is owed from before. An INACTIVE one is not made ACTIVE again.
//
// The events are counterparty.created, .changed and .deactivated, and settlement_rule.created,
// .changed and .retired, with the record as their data. What changes nothing has none. The
// record of a counterparty is in them without payoutRef and taxId: these may be a person's, and
// an event is never erased. The name is in them, so it must not be a person's.
//
// Replay brings counterparties and rules of a restored older database to the state that the log has.
//
// A refused record is answered with all of its faults at once. Changes are made one at a time, and
// the last one stands: none requires the revision that its caller has seen.
package settle
