package deploy

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// secrets are the variables that must not have a default.
var secrets = types.Mapping{"POSTGRES_PASSWORD": "s3cret-p", "CLICKHOUSE_PASSWORD": "s3cret-c", "GRAFANA_PASSWORD": "s3cret-g"}

func compose(t *testing.T, env types.Mapping) (*types.Project, error) {
	t.Helper()
	file, err := filepath.Abs("compose.yaml")
	require.NoError(t, err)
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: maps.Clone(env), // it is added to
	})
}

func TestComposeRefusesToStartWithoutSecrets(t *testing.T) {
	for name := range secrets {
		for _, given := range []string{"missing", "empty"} {
			env := maps.Clone(secrets)
			delete(env, name)
			if given == "empty" {
				env[name] = ""
			}
			_, err := compose(t, env)
			require.ErrorContains(t, err, name, given)
			require.ErrorContains(t, err, "set it in .env")
		}
	}
}

func TestCompose(t *testing.T) {
	project, err := compose(t, secrets)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"node-1", "node-2", "loader", "control", "migrate",
		"kafka", "clickhouse", "postgres", "prometheus", "grafana"}, project.ServiceNames())

	keepData := map[string]bool{"node-1": true, "node-2": true, "control": true}
	for _, name := range []string{"node-1", "node-2", "loader", "control", "migrate"} {
		s := project.Services[name]
		require.Equal(t, "65532:65532", s.User, name)
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		if name != "migrate" {
			require.Equal(t, types.ServiceConditionCompletedSuccessfully, s.DependsOn["migrate"].Condition, name)
		}
		onData := slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Target == "/data" && v.Type == types.VolumeTypeVolume
		})
		require.Equal(t, keepData[name], onData, "%s: a spool and an identity outlive their container", name)
	}
	for node, control := range map[string]string{"MUNIMENT_CONTROL_CA": "MUNIMENT_TLS_CERT", "MUNIMENT_NODES_CA": "MUNIMENT_NODES_TLS_CERT"} {
		require.Contains(t, project.Services["node-1"].Environment, node)
		require.Contains(t, project.Services["control"].Environment, control)
	}
	for name, s := range project.Services {
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, name)
			if _, ours := s.Environment["MUNIMENT_ADMIN"]; ours {
				require.NotEqual(t, uint32(9090), port.Target, "%s publishes its admin listener", name)
			}
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				require.DirExists(t, v.Source, name)
			}
		}
		for variable, value := range s.Environment {
			if strings.Contains(variable, "PASSWORD") {
				require.Contains(t, *value, "s3cret-", "%s: %s", name, variable)
			}
		}
	}
}
