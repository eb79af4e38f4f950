package console

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAStatementAgainstTheOneBefore says right by right what is more or less, and by which prices; of a chain it takes the newest
// correction, and none that is voided or of another payee.
func TestAStatementAgainstTheOneBefore(t *testing.T) {
	const of = `{"statement":{"id":"%s","period":"%s","state":"ISSUED","currency":"EUR","total":"%s","receipts":%d,"heldAmount":"0","from":"%[2]s-01T00:00:00Z","to":"%[5]s-01T00:00:00Z"%[6]s},"document":{"lines":[%[7]s]}}`
	line := func(rightID, price, amount string, plays int) string {
		return fmt.Sprintf(`{"rightId":"%s","price":"%s","unit":"SECOND","amount":"%s","receipts":%d}`, rightID, price, amount, plays)
	}
	documents := map[string]string{
		"stm_oct": fmt.Sprintf(of, "stm_oct", "2026-10", "0.90", 9, "2026-11", "", line("rgh_1", "0.004", "0.40", 5)+","+line("rgh_2", "0.01", "0.50", 4)),
		"stm_sep": fmt.Sprintf(of, "stm_sep", "2026-09", "9", 9, "2026-10", "", ""),
		"stm_cor": fmt.Sprintf(of, "stm_cor", "2026-09", "1.50", 10, "2026-10", `,"corrects":"stm_sep","correction":1`, line("rgh_1", "0.005", "0.50", 5)+","+line("rgh_3", "0.01", "1.00", 5)),
		"stm_one": fmt.Sprintf(of, "stm_one", "2026-09", "7", 9, "2026-10", `,"counterpartyId":"cp_1"`, ""),
		"stm_vod": strings.Replace(fmt.Sprintf(of, "stm_vod", "2026-09", "8", 9, "2026-10", `,"correction":9`, ""), "ISSUED", "VOIDED", 1),
	}
	records := map[string]string{"/v1/counterparties": `{"counterparties":[{"id":"cp_1","name":"Song Rights"}]}`}
	var list []string
	for _, id := range []string{"stm_vod", "stm_oct", "stm_one", "stm_sep", "stm_cor"} {
		records["/v1/statements/"+id] = documents[id]
		statement, _, _ := strings.Cut(strings.TrimPrefix(documents[id], `{"statement":`), `,"document"`)
		list = append(list, statement)
	}
	records["/v1/statements"] = `{"statements":[` + strings.Join(list, ",") + `]}`
	open := func(show handler, query string) (text string, w *httptest.ResponseRecorder) {
		s, _ := recorded(t, records)
		p, w := s.page(Path + "/money/statements/stm_oct/comparison" + query)
		p.r.SetPathValue("statementId", "stm_oct")
		require.NoError(t, show(p))
		return readable(w.Body.String()), w
	}
	text, w := open(showComparison, "")
	require.Contains(t, text, "Statement October 2026, against Correction 1 of September 2026")
	require.Contains(t, text, "0.90 EUR now · 1.50 EUR then · difference -0.60")
	require.Contains(t, text, "rgh_3 -1.00 1.00 0.00 5 0 0.01 a second – rgh_2 0.50 0.00 0.50 0 4 – 0.01 a second rgh_1 -0.10 0.50 0.40 5 5 0.005 a second 0.004 a second", "the largest difference first")
	require.Contains(t, text, "Statement September 2026, issued, for Song Rights")
	require.NotContains(t, w.Body.String(), "stm_vod")
	require.Contains(t, w.Body.String(), "comparison.csv?with=stm_cor")
	text, _ = open(showComparison, "?with=stm_sep")
	require.Contains(t, text, "difference -8.10")
	text, w = open(showComparison, "?with=stm_vod")
	require.Equal(t, 422, w.Code)
	require.Contains(t, text, "choose one of the list")
	_, w = open(sendComparison, "")
	require.Contains(t, w.Body.String(), "rgh_1,-0.10,0.50,0.40,5,5,0.005 a second,0.004 a second\n")

	records["/v1/statements"] = `{"statements":[` + list[1] + `]}`
	text, _ = open(showComparison, "")
	require.Contains(t, text, "No statement before it")
}

// TestAPageSaysHowMuchOfAComparisonItShows: never less than all without saying so, and nothing where it has all.
func TestAPageSaysHowMuchOfAComparisonItShows(t *testing.T) {
	for rights, hint := range map[int]string{shownRows: "", shownRows + 1: "The 500 largest differences of 501"} {
		var lines []string
		for i := range rights {
			lines = append(lines, fmt.Sprintf(`{"rightId":"rgh_%d","price":"1","unit":"EVENT","amount":"1","receipts":1}`, i))
		}
		of := func(id, month, end string) string {
			return fmt.Sprintf(`{"id":"%s","state":"ISSUED","currency":"EUR","total":"1","heldAmount":"0","from":"2026-%s-01T00:00:00Z","to":"2026-%s-01T00:00:00Z"}`, id, month, end)
		}
		now, then := of("stm_2", "10", "11"), of("stm_1", "09", "10")
		s, _ := recorded(t, map[string]string{
			"/v1/statements":       `{"statements":[` + now + "," + then + `]}`,
			"/v1/statements/stm_1": `{"statement":` + then + `}`, "/v1/statements/stm_2": `{"statement":` + now + `,"document":{"lines":[` + strings.Join(lines, ",") + `]}}`,
		})
		p, w := s.page(Path + "/money/statements/stm_2/comparison")
		p.r.SetPathValue("statementId", "stm_2")
		require.NoError(t, showComparison(p))
		if hint == "" {
			require.NotContains(t, readable(w.Body.String()), "largest differences of")
			continue
		}
		require.Contains(t, readable(w.Body.String()), hint)
	}
}
