package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The members of a CycloneDX 1.6 document that are used.
type (
	document struct {
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp  string     `json:"timestamp"`
		Component  component  `json:"component"`
		Properties []property `json:"properties"`
	}
	component struct {
		Type     string    `json:"type"`
		Ref      string    `json:"bom-ref"`
		Name     string    `json:"name"`
		Version  string    `json:"version"`
		PURL     string    `json:"purl,omitempty"`
		Hashes   []digest  `json:"hashes,omitempty"`
		Licences []licence `json:"licenses,omitempty"`
	}
	digest struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licence struct {
		Expression string `json:"expression"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

const ownLicence = "Apache-2.0"

// bom returns the bill of materials: the programs, and the modules in each.
func (c *config) bom(modules []module) ([]byte, error) {
	own := func(program string) component {
		return component{Type: "application", Ref: program, Name: program, Version: c.version, Licences: []licence{{ownLicence}}}
	}
	d := document{
		Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{
			Timestamp: c.at.Format(time.RFC3339), Component: own("muniment"),
			Properties: []property{{"muniment:revision", c.revision}},
		},
	}
	for _, p := range programs {
		if p.name != d.Metadata.Component.Name {
			d.Components = append(d.Components, own(p.name))
		}
		list := dependency{Ref: p.name, DependsOn: []string{}}
		for _, m := range modules {
			if slices.Contains(m.programs, p.name) {
				list.DependsOn = append(list.DependsOn, m.purl())
			}
		}
		d.Dependencies = append(d.Dependencies, list)
	}
	for _, m := range modules {
		library, err := m.component()
		if err != nil {
			return nil, err
		}
		d.Components = append(d.Components, library)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// purl returns the module's package URL.
func (m *module) purl() string {
	return "pkg:golang/" + strings.ToLower(m.path) + "@" + strings.ReplaceAll(m.version, "+", "%2B")
}

// component returns the module as an entry of the bill. Its hash is that of go.sum: SHA-256 of the
// list of its files' hashes.
func (m *module) component() (component, error) {
	l := component{Type: "library", Ref: m.purl(), Name: m.path, Version: m.version, PURL: m.purl()}
	if len(m.licences) > 0 {
		l.Licences = []licence{{strings.Join(m.licences, " AND ")}}
	}
	if m.path == std {
		return l, nil
	}
	sum, ok := strings.CutPrefix(m.sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(sum)
	if !ok || err != nil || len(raw) != 32 {
		return l, fmt.Errorf("%s has no hash in go.sum that can be read: %q", m.path, m.sum)
	}
	l.Hashes = []digest{{"SHA-256", hex.EncodeToString(raw)}}
	return l, nil
}
