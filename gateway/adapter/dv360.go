package adapter

import (
	"github.com/go-json-experiment/json/jsontext"
)

// dv360 is ad plays of the out-of-home seller API of Google's Display & Video 360, in its
// versions v1 and v1beta1: one, those of a batchCreate request, or those of its answer.
// https://developers.google.com/display-video/out-of-home-seller/reference/rest/v1/sellers.adPlays
//
// An ad play is named by its ad unit, order, line, creative and start time, of which Google
// takes no second one. Its resource name is not known before it was created.
var dv360 = Format{
	Name: "dv360",
	ids: []string{"adUnit", "adUnitExternalId", "line", "lineExternalId", "orderExternalId",
		"creativeAsset", "creative", "creativeAssetExternalId"},
	options: []string{optionIDType, optionMultiplier, optionVendor},
	lists:   []string{"requests", "adPlays"},
	read:    func(d *document) error { return d.each(d.readDV360) },
}

type dv360Play struct {
	AdUnit                  string  `json:"adUnit"`
	AdUnitExternalID        string  `json:"adUnitExternalId"`
	Line                    string  `json:"line"`
	LineExternalID          string  `json:"lineExternalId"`
	OrderExternalID         string  `json:"orderExternalId"` // v1beta1
	CreativeAsset           string  `json:"creativeAsset"`
	Creative                string  `json:"creative"` // v1beta1
	CreativeAssetExternalID string  `json:"creativeAssetExternalId"`
	StartTime               string  `json:"startTime"`
	EndTime                 string  `json:"endTime"`
	ImpressionCount         decimal `json:"impressionCount"`
	Impressions             decimal `json:"impressions"` // v1beta1
}

func (d *document) readDV360(place string, value jsontext.Value) error {
	var requests, plays jsontext.Value
	if err := members(value, map[string]*jsontext.Value{"requests": &requests, "adPlays": &plays}); err != nil {
		return err
	}
	switch {
	case requests.Kind() == jsontext.KindBeginArray:
		d.plays(member(place, "requests"), requests, func(p *play, request jsontext.Value) {
			v := struct {
				AdPlay jsontext.Value `json:"adPlay"`
			}{}
			if p.decode(request, &v); v.AdPlay == nil {
				p.refuse("adPlay", "is missing")
				return
			}
			p.place = member(p.place, "adPlay")
			p.readDV360(v.AdPlay)
		})
	case plays.Kind() == jsontext.KindBeginArray:
		d.plays(member(place, "adPlays"), plays, (*play).readDV360)
	case requests != nil || plays != nil:
		return unreadable("requests and adPlays must be arrays")
	default:
		p := d.play(place)
		p.readDV360(value)
		d.emit(p)
	}
	return nil
}

func (p *play) readDV360(value jsontext.Value) {
	var v dv360Play
	if p.decode(value, &v); p.fault != nil {
		return
	}
	adUnit := p.either("adUnit", v.AdUnit, v.AdUnitExternalID)
	line := p.either("line", v.Line, v.LineExternalID)
	creative := p.either("creativeAsset", v.CreativeAsset, v.Creative, v.CreativeAssetExternalID)
	ids := p.ids
	if v.AdUnit == "" && !p.header.Query.Has(optionIDType) {
		ids = []string{"adUnitExternalId"}
	}
	p.named(ids, map[string]id{
		"adUnit": id(v.AdUnit), "adUnitExternalId": id(v.AdUnitExternalID), "line": id(v.Line), "lineExternalId": id(v.LineExternalID),
		"orderExternalId": id(v.OrderExternalID), "creativeAsset": id(v.CreativeAsset), "creative": id(v.Creative),
		"creativeAssetExternalId": id(v.CreativeAssetExternalID),
	})
	p.text(&p.row.CorrelationID, "creativeAsset", creative)
	start, end := p.clock("startTime", v.StartTime), p.clock("endTime", v.EndTime)
	p.played("startTime", start)
	p.known("adUnit", adUnit, v.OrderExternalID, line, creative, p.row.PlayedAt)
	p.until("endTime", "startTime", start, end)
	p.multiplier("impressionCount", string(v.ImpressionCount))
	p.multiplier("impressions", string(v.Impressions))
}
