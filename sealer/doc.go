// Package sealer signs and hashes: it owns every format that a stranger verifies.
package sealer
