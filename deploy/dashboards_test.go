package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ UID string }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct{ Expr, LegendFormat string }
}

func dashboards(t *testing.T) (list []dashboard) {
	t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal(text, &d), file)
		list = append(list, d)
	}
	return list
}

// TestDashboards holds the form of the dashboards, and that their metrics exist;
// live_test.go checks whether Prometheus answers their queries.
func TestDashboards(t *testing.T) {
	all := registered(t)
	rules(t, all)
	uids := map[string]bool{}
	for _, d := range dashboards(t) {
		require.False(t, uids[d.UID], d.UID)
		uids[d.UID] = true
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			where := d.Title + ": " + p.Title
			require.False(t, ids[p.ID], where)
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				require.Less(t, x, 24, where)
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Empty(t, taken[[2]int{x, y}], "%s stands on another panel", where)
					taken[[2]int{x, y}] = where
				}
			}
			if p.Type == "row" {
				continue
			}
			require.NotEmpty(t, p.Description, where)
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, where)
			require.Equal(t, "${source}", p.Datasource.UID, where)
			require.NotEmpty(t, p.Targets, where)
			for _, target := range p.Targets {
				all.requireShown(t, where, target.Expr)
			}
		}
	}
}
