package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control/roomtest"
	"muniment.example/gateway/api"
)

const header = "vendor,idType,vendorId,rightId,spatialAnchorId,spatialPlacementId,effectiveFrom,effectiveUntil\n"

func (s *Service) mustImport(t *testing.T, body string) Import {
	t.Helper()
	all, err := s.importAll(t.Context(), tenantID, []byte(body), byKey)
	require.NoError(t, err)
	require.Equal(t, len(all.Rows), all.Counts.Created+all.Counts.Unchanged+all.Counts.Refused)
	return all
}

// statuses reports each line in a few words: its number, status, and error.
func statuses(all Import) (list []string) {
	for _, row := range all.Rows {
		text := fmt.Sprint(row.Line, " ", row.Status)
		if row.Error != nil {
			text += " " + string(row.Error.Code) + " " + row.Error.Message
		}
		list = append(list, text)
	}
	return list
}

// TestImportCSV: each line is processed independently.
func TestImportCSV(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	r.relay(t)
	there := r.mustCreate(t, mappingFor("9", rightB, -1, 1))
	body := "\ufeff" + strings.ReplaceAll(header, "\n", "\r\n") +
		"acme,player,1,rgh_a,wall,slot-3,2026-11-01,2026-12-01T00:00:00+01:00\r\n" +
		"acme,player,2,rgh_a,wall,,20261101T120000Z,\r\n" +
		"\r\n" +
		`acme,player,"3, the ""third""",rgh_b,wall,,2026-11-01,` + "\n" +
		"acme,player,4,rgh_none,wall,,2026-11-01,\n" +
		`acme,player,"5,rgh_a,wall,,2026-11-01,` + "\n" +
		"acme,player,6,rgh_a,wall\n" +
		"acme,player,7,rgh_a,wall,,yesterday,\n" +
		"acme,,8,rgh_a,wall,,2026-11-01,\n" +
		"acme,player,9,rgh_a,wall,,2026-11-01,\n" +
		"acme,player,2,rgh_a,wall,,2026-11-01T12:00Z,\n" +
		"acme,player,2,rgh_b,wall,,2026-11-01T12:00Z,\n" +
		"acme,player,\x00,rgh_a,wall,,2026-11-01,\n" +
		"acme,player,\xff,rgh_a,wall,,2026-11-01,\n" +
		"acme,player,10,rgh_a,wall,,2026-11-01,2026-10-01\n" +
		"acme,player,11,rgh_a,wall,,2026-11-01," // without an end of the line
	want := []string{
		"2 created", "3 created", "5 created",
		"6 refused RESOURCE_NOT_FOUND no such right in this tenant",
		"7 refused VALIDATION_FAILED line: is not valid CSV: a quote is misplaced, or not closed on this line",
		"8 refused VALIDATION_FAILED line: has 5 fields, the header has 8",
		"9 refused VALIDATION_FAILED effectiveFrom: must be a date, such as 2026-11-01, or a time, such as 2026-11-01T12:00:00Z or 20261101T120000Z",
		"10 refused VALIDATION_FAILED idType: is missing",
		"11 refused STATE_CONFLICT overlaps the mapping " + there.ID + " of this vendor id, which is in force from 2026-11-20T11:00:00.000Z until 2026-11-20T13:00:00.000Z",
		"12 unchanged",
		"13 refused STATE_CONFLICT overlaps the mapping %s of this vendor id, which is in force from 2026-11-01T12:00:00.000Z without an end",
		"14 refused VALIDATION_FAILED vendorId: must be UTF-8 without U+0000, at most 512 bytes",
		"15 refused VALIDATION_FAILED vendorId: must be UTF-8 without U+0000, at most 512 bytes",
		"16 refused VALIDATION_FAILED effectiveUntil: must be after effectiveFrom",
		"17 created",
	}
	all := r.mustImport(t, body)
	want[10] = fmt.Sprintf(want[10], all.Rows[1].MappingID)
	require.Equal(t, want, statuses(all))
	require.Equal(t, ImportCounts{4, 1, 10}, all.Counts)
	require.Equal(t, there.ID, all.Rows[8].MappingID, "the one that it would overlap")
	require.Equal(t, all.Rows[1].MappingID, all.Rows[9].MappingID)

	m, err := mappings.Find(t.Context(), r.db.Read(), tenantID, all.Rows[0].MappingID)
	require.NoError(t, err)
	require.Equal(t, Target{rightA, "wall", new("slot-3")}, m.Target)
	require.Equal(t, "2026-11-30T23:00:00.000Z", m.EffectiveUntil.String())
	m, err = mappings.Find(t.Context(), r.db.Read(), tenantID, all.Rows[2].MappingID)
	require.NoError(t, err)
	require.Equal(t, `3, the "third"`, m.VendorID)
	require.Nil(t, m.Target.SpatialPlacementID)

	again := r.mustImport(t, body)
	require.Equal(t, ImportCounts{0, 5, 10}, again.Counts, "it is safe to repeat")
	for i := range all.Rows {
		require.Equal(t, all.Rows[i].MappingID, again.Rows[i].MappingID)
	}
	counted, err := total(t.Context(), r.db.Read(), tenantID, filter{})
	require.NoError(t, err)
	require.Equal(t, int64(5), counted)
}

// TestImportJSONLines: each line is an object as POST takes it.
func TestImportJSONLines(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	l := r.relay(t)
	line := func(player, more string) string {
		return fmt.Sprintf(`{"vendor":"acme","idType":"player","vendorId":%q,"target":{"rightId":"rgh_a","spatialAnchorId":"wall"},"effectiveFrom":"2026-11-01"%s}`, player, more) + "\n"
	}
	all := r.mustImport(t, "\n  "+line("1", "")+
		line("2", `,"effectiveUntil":null`)+
		line("3", `,"effectiveUntl":"2026-12-01"`)+
		line("4", `,"vendor":"other"`)+
		strings.Replace(line("5", ""), `"wall"`, `7`, 1)+
		strings.Replace(line("6", ""), `"wall"`, `"wall","rightsId":""`, 1)+
		"[1]\n"+
		line("7", `,`)+
		"{\xff}\n"+
		strings.Repeat(`{"target":`, 40_000)+"\n"+
		strings.Replace(line("8", ""), "8", "a\\u0000", 1)+
		line("9", ""))
	require.Equal(t, []string{
		"2 created", "3 created",
		"4 refused VALIDATION_FAILED effectiveUntl: is not a field of a mapping",
		"5 refused VALIDATION_FAILED vendor: is given twice",
		"6 refused VALIDATION_FAILED target.spatialAnchorId: is not of the right type",
		"7 refused VALIDATION_FAILED target.rightsId: is not a field of a mapping",
		"8 refused VALIDATION_FAILED line: is not of the right type",
		"9 refused BAD_REQUEST the line is not valid JSON at byte 132",
		"10 refused BAD_REQUEST the line is not valid JSON at byte 1",
		"11 refused VALIDATION_FAILED target.target: is not a field of a mapping",
		"12 refused VALIDATION_FAILED vendorId: must be UTF-8 without U+0000, at most 512 bytes",
		"13 created",
	}, statuses(all))
	require.Len(t, l.events, 3, "the log has the events when the answer is there")
}

// TestImportIsRefusedAsAWhole if it has no valid structure.
func TestImportIsRefusedAsAWhole(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	r.relay(t)
	line := "acme,player,1,rgh_a,wall,,2026-11-01,\n"
	for body, want := range map[string]string{
		"":     "body: has no mappings",
		" \n":  "body: has no mappings",
		header: "body: has no mappings",
		strings.Replace(header, "vendorId", "vendorid", 1) + line:                "several fields are not valid",
		strings.Replace(header, "effectiveUntil", "effectivUntil", 1) + line:     "effectivUntil: is not a column of a mapping",
		strings.Replace(header, "spatialPlacementId", "spatialAnchorId", 1) + "": "spatialAnchorId: is given twice",
		line:                                "several fields are not valid",
		"\"" + header:                       "line: is not valid CSV",
		header + strings.Repeat(line, 5001): "body: has more than 5000 lines",
		"[" + line:                          "several fields are not valid",
		strings.Repeat(",", 1<<20):          "line: has more than 64 columns",
	} {
		_, err := r.importAll(t.Context(), tenantID, []byte(body), byKey)
		require.Equal(t, api.ValidationFailed, api.From(err).Code, "%.60q", body)
		require.Contains(t, api.From(err).Message, want, "%.60q", body)
	}
	require.Empty(t, roomtest.Events(t, r.db))
}

// TestImportWithoutALog: created mappings stay and are reported, the rest may be sent again.
func TestImportWithoutALog(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	l := r.relay(t)
	ctx, cancel := context.WithCancel(t.Context())
	l.fail(errors.New("away"), cancel)
	body := header
	for i := range 3*importChange - 10 {
		body += fmt.Sprintf("acme,player,%d,rgh_a,wall,,2026-11-01,\n", i)
	}
	all, err := r.importAll(ctx, tenantID, []byte(body), byKey)
	require.NoError(t, err)
	require.Equal(t, ImportCounts{Created: importChange, Refused: 2*importChange - 10}, all.Counts)
	require.Equal(t, &api.RowError{Code: api.InternalError, Message: errLogBehind.Message, Reason: api.LogUnavailable}, all.Rows[importChange].Error)

	l.fail(nil, nil)
	again := r.mustImport(t, body)
	require.Equal(t, ImportCounts{Created: 2*importChange - 10, Unchanged: importChange}, again.Counts)
}

// TestMostMappings: one more is refused, retired ones count, and an import that was made before still is unchanged.
func TestMostMappings(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), func(c *Config) { c.MaxMappings = 3 })
	r.relay(t)
	first := r.mustCreate(t, mappingFor("0", rightA, -1, 1))
	_, _, err := r.retire(t.Context(), tenantID, first.ID, byKey)
	require.NoError(t, err)
	body := header + "acme,player,1,rgh_a,wall,,2026-11-01,\nacme,player,2,rgh_a,wall,,2026-11-01,\nacme,player,3,rgh_a,wall,,2026-11-01,\n"
	const full = "the tenant has the maximum of 3 mappings; retired ones count, as late rows may still resolve by them"
	require.Equal(t, []string{"2 created", "3 created", "4 refused STATE_CONFLICT " + full}, statuses(r.mustImport(t, body)))
	require.Equal(t, []string{"2 unchanged", "3 unchanged", "4 refused STATE_CONFLICT " + full}, statuses(r.mustImport(t, body)))
	_, err = r.create(t.Context(), mappingFor("3", rightA, -1, 1), byKey)
	require.Equal(t, api.StateConflict, api.From(err).Code)
	require.Equal(t, full, api.From(err).Message)
}

// TestImportWithoutADatabase is refused, as nothing was made.
func TestImportWithoutADatabase(t *testing.T) {
	r := newService(t, t.TempDir(), roomtest.NewClock(noon), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.importAll(ctx, tenantID, []byte(header+"acme,player,1,rgh_a,wall,,2026-11-01,\n"), byKey)
	require.ErrorIs(t, err, context.Canceled)
}

// FuzzReadImport: any bytes can be read, and each line independently: lines before and after it
// change nothing.
func FuzzReadImport(f *testing.F) {
	f.Add("acme,player,1,rgh_a,wall,,2026-11-01,", `a"b`)
	f.Add(`{"vendor":"acme","idType":"player","vendorId":"1","target":{"rightId":"rgh_a","spatialAnchorId":"wall"},"effectiveFrom":"2026-11-01"}`, `{"`)
	f.Add(`"a""b",,,,,,`, "")
	f.Fuzz(func(t *testing.T, line, other string) {
		_, _ = readImport(tenantID, []byte(line+"\n"+other))
		line, other = strings.ReplaceAll(line, "\n", " "), strings.ReplaceAll(other, "\n", " ")
		first := header
		if strings.HasPrefix(strings.TrimLeft(line, " \t\r\n"), "{") {
			first = "{}\n"
		}
		read := func(body string, number int) (found *importLine) {
			lines, err := readImport(tenantID, []byte(body))
			if err != nil {
				return nil
			}
			for i := range lines {
				if lines[i].number == number {
					found = &lines[i]
				}
			}
			return found
		}
		alone, between := read(first+line, 2), read(first+other+"\n"+line+"\n"+other, 3)
		if alone == nil || between == nil {
			require.Equal(t, alone == nil, between == nil)
			return
		}
		require.Equal(t, alone.requested, between.requested)
		require.Equal(t, fmt.Sprint(alone.err), fmt.Sprint(between.err))
	})
}
