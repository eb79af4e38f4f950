// Package dsar exports the data of a person, or of a tenant: DSAR jobs.
//
// A job is REQUESTED until it is run, and may be cancelled until a worker begins it. It ends READY
// or FAILED, along the table of transitions in job.go. At most 5 jobs of a tenant are active, also
// under concurrent requests, since changes run one at a time.
//
// What names a person (the data subject, the requester, notes and reasons) is in the tables of this
// package, where erasure replaces it, and in the private parts of events. It is in no event's data,
// and in no log line.
//
// A scope that its kind would ignore is refused: a window with TENANT_FULL means that the caller
// wants less.
//
// # Workers
//
// Exports are leased jobs of control (control/store/jobs.go), of any of its processes. A worker waits a
// little for the spools of live nodes, drains the tenant's outbox, waits for the warehouse to have
// what is in the log by then, as long as that makes progress, and reads up to there, with one state
// of the database: this is the moment of the bundle. Its manifest counts the records that are still
// in spools. It reports its progress once a second. If it is killed, another worker starts again
// from the beginning, and first deletes what the first has left. After five attempts the job is
// FAILED, with the code of the last. A bundle that an erasure makes void while it is collected is
// collected again, behind the other jobs; this is no attempt.
//
// A worker holds a page of rows at a time, and of PARQUET a row group.
//
// A person's deliveries, events, held rows and DSAR jobs are those that name the person by the
// reference that the tenant gave. Further events are those whose notes name the person, with these notes and
// no others: of records of the kinds whose texts name the person. The section mentions has what names the person in the database, or what an
// erasure of the person would remove beside: the columns are those of store.Personal, so an export
// shows what an erasure would remove. A slice selects deliveries by the time they were rendered, and
// everything else by the time of its event. A slice by campaigns or substrates has their rights,
// the deliveries and events of these rights, but no held rows, whose right is decided
// when they are delivered.
//
// audit:read requests exports, and gets all of a person's. An export of the tenant has only the sections whose scope the
// requester holds (sections.go): its README says what was left out, and which scope has it. Private parts of events, which no
// other operation shows, are in one that leaves nothing out but erasures; those of deliveries are in each. Who requests a link
// to a bundle needs the scopes of all that is in it.
//
// # Bundles
//
// A bundle is a zip file with a signed manifest (sealer/dsar), in a folder or a bucket that all
// processes share. It is deleted when its time is over, or when an erasure makes it void
// (Service.Void). Backups have none. The bundles of a tenant have a limit of bytes, at which no further job is accepted and
// an export that would exceed it fails; those of jobs that run at once may each take what was left when they began. No
// export is accepted or written while the folder's disk has less free space than Config.MinFree.
//
// A link to it is a token that names job, end, and the key or member that made it, signed by HMAC-SHA256 under a
// secret of the job. It works for 15 minutes, and only while its maker may read the bundle. Each download, of the whole or of a part, is an event before its
// first byte. After the last byte of the whole there is a second event, and the job gets another secret
// with it, which ends all its links: one that breaks off, a HEAD and one of a part use up none. A Range
// that is ignored, or that names all of the bundle, is one of the whole. Nor does one use up a link whose
// process ends before that is recorded. A download ends before its next chunk once the bundle is
// void.
package dsar
