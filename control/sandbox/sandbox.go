// Package sandbox is the live sandbox under /api/sandbox: what strangers meet first.
//
// A visitor is known by a cookie, which names its tenant and is signed with the
// service's secret (cookie.go), and is limited by its address (limit.go).
package sandbox
