package store

import (
	"context"
	"database/sql"
	"fmt"
)

// The version of a schema is the number of its newest migration. schema_programs names the
// program that brought it there, for a program that is too old for it.

// noteProgram writes down that the program brought the schema to a version, unless one did
// already: whoever opens it later has migrated nothing. A crash between the migration and
// this is made good by the next start.
func noteProgram(ctx context.Context, db *sql.DB, version int64, program string) error {
	if program == "" {
		return nil
	}
	_, err := db.ExecContext(ctx, `INSERT INTO schema_programs (schema_version, program) VALUES ($1, $2) ON CONFLICT (schema_version) DO NOTHING`, version, program)
	if err != nil {
		return fmt.Errorf("cannot note which program migrated the schema: %w", err)
	}
	return nil
}

// refuseNewer refuses a schema of which this program, which knows the versions up to known,
// can't know what its columns mean.
func refuseNewer(ctx context.Context, db *sql.DB, have, known int64, program string) error {
	if have <= known {
		return nil
	}
	text := fmt.Sprintf("schema version %d is newer than %d, the newest that this program knows", have, known)
	if program != "" {
		text += "; this is " + program
	}
	var by string
	// Nobody may have noted it, and a later program may note it elsewhere.
	if db.QueryRowContext(ctx, `SELECT program FROM schema_programs WHERE schema_version = $1`, have).Scan(&by) == nil {
		text += ", and " + by + " has migrated it"
	}
	return fmt.Errorf("%s: run the version that migrated it, or a newer one, or restore a backup that this version made", text)
}
