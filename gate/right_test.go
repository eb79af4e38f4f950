package gate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRight(t *testing.T) {
	for scope, want := range map[string]Right{
		``:                        {},
		"  \n":                    {},
		`null`:                    {},
		`"all of it"`:             {},
		`{}`:                      {},
		`{"regions":["US","CA"]}`: {Regions: []string{"US", "CA"}},
		`{"regions":["\u0055S"]}`: {Regions: []string{"US"}},
		`{"regions":[]}`:          {Regions: []string{}},
		`{"maxSpeedMph":0}`:       {HasMaxSpeed: true},
		`{"maxSpeedMph":2.5,"bvlos":true,"until":"dusk","nested":{"bvlos":7}}`: {MaxSpeedMph: 2.5, HasMaxSpeed: true, BVLOS: true},
		`{"bvlos":false,"MaxSpeedMph":"fast","Regions":1}`:                     {},
	} {
		want.Substrate = Drone
		got, err := ParseRight(Drone, []byte(scope))
		require.NoError(t, err, scope)
		require.Equal(t, want, got, scope)
	}
}

func TestParseRightRefusesLimitsItCannotRead(t *testing.T) {
	for scope, message := range map[string]string{
		`{"regions":"US"}`:             "regions must be an array of strings",
		`{"regions":null}`:             "regions must be an array of strings",
		`{"regions":["US",1]}`:         "regions must be an array of strings",
		`{"maxSpeedMph":"5"}`:          "maxSpeedMph must be a number, 0 or more",
		`{"maxSpeedMph":null}`:         "maxSpeedMph must be a number, 0 or more",
		`{"maxSpeedMph":-1}`:           "maxSpeedMph must be a number, 0 or more",
		`{"maxSpeedMph":1e400}`:        "maxSpeedMph must be a number, 0 or more",
		`{"bvlos":"yes"}`:              "bvlos must be a boolean",
		`{"bvlos":null}`:               "bvlos must be a boolean",
		`[]`:                           "scope must be an object or a string",
		`7`:                            "scope must be an object or a string",
		`{} {}`:                        "more than one JSON value",
		`{"bvlos":true,"bvlos":false}`: "duplicate object member name",
		`{"bvlos":true`:                "unexpected EOF",
		`{"regions":["US"`:             "unexpected EOF",
		`{"bvlos" true}`:               "invalid character",
	} {
		_, err := ParseRight(Drone, []byte(scope))
		require.ErrorContains(t, err, message, scope)
		require.ErrorContains(t, err, "cannot read scope: ", scope)
	}
	_, err := ParseRight(Substrates, nil)
	require.EqualError(t, err, "Substrate(24) is not a substrate")
}
