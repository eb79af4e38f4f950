package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"muniment.example/gateway/client"
)

// works are what people call rights, by their ids.
type works map[string]string

// workOf is what people call a right by its scope: its description or its campaigns; empty if it has neither. Its basis then
// names it, as on papers.
func workOf(r client.Right) string {
	var scope struct {
		Description string
		Campaigns   []string
	}
	if json.Unmarshal(r.Scope, &scope) != nil {
		return ""
	}
	if scope.Description != "" {
		return scope.Description
	}
	return strings.Join(scope.Campaigns, ", ")
}

// readWorks reads the names of the newest 500 rights; none if the session may not, or if the tenant has too many requests
// in flight: ids stand for them then.
func (p *page) readWorks() (works, error) {
	names := works{}
	if !p.can("list-rights") {
		return names, nil
	}
	newest, err := p.newestRights()
	if err != nil && !isBusy(err) {
		return nil, err
	}
	titles, err := p.titlesOf(newest.All...)
	if err != nil {
		return nil, err
	}
	for _, r := range newest.All {
		names[r.ID] = cmp.Or(workOf(r), titles[r.BasisID])
	}
	return names, nil
}

// titlesOf are the titles of bases, if one of the rights needs that of its own to be called by; nil otherwise.
func (p *page) titlesOf(all ...client.Right) (map[string]string, error) {
	if !slices.ContainsFunc(all, func(r client.Right) bool { return workOf(r) == "" }) {
		return nil, nil
	}
	return p.readTitles()
}

// readTitles reads the titles of the newest 500 bases, by their ids; none as readWorks.
func (p *page) readTitles() (map[string]string, error) {
	titles := map[string]string{}
	if !p.can("list-bases") {
		return titles, nil
	}
	newest, err := p.newestBases()
	if err != nil && !isBusy(err) {
		return nil, err
	}
	for _, b := range newest.All {
		titles[b.ID] = b.Title
	}
	return titles, nil
}

// cell is a right by its name, with its id below, or by its id.
func (w works) cell(rightID string) cell {
	name := w[rightID]
	if name == "" {
		return id(rightID, "/rights")
	}
	c := link(name, rightID, "/rights")
	c.Note = short(rightID)
	return c
}

// to is a right by its name, or by its id, that leads to the page of a record about it.
func (w works) to(rightID, path string) cell {
	return cell{Text: cmp.Or(w[rightID], short(rightID)), Href: Path + path, value: rightID}
}

// Right is a cell of a right on this page.
func (p *page) Right(w works, rightID string) cell { return p.allowed(w.cell(rightID)) }
