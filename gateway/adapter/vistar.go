package adapter

import (
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// vistar is the answer to an ad request of Vistar Media's Ad Serving API, after the play:
// display_time, with which the player reports the proof of play, is when it was shown.
// https://help.vistarmedia.com/hc/en-us/articles/225058628-Ad-Serving-API
//
// The venue is the request's: it stands beside advertisement, or in each advertisement. An
// advertisement's id is that of its lease, which can be spent once.
var vistar = Format{
	Name:    "vistar",
	ids:     []string{"venue_id", "display_area_id", "campaign_id", "order_id", "creative_id", "asset_id", "deal_id"},
	options: []string{optionIDType, optionVendor},
	lists:   []string{"advertisement"},
	beside:  "venue_id",
	play:    reflect.TypeFor[vistarPlay](),
	read:    func(d *document) error { return d.eachList((*play).readVistar) },
}

type vistarPlay struct {
	ID            id       `json:"id"`
	VenueID       id       `json:"venue_id" idType:"venue_id"`
	DisplayAreaID id       `json:"display_area_id"`
	CampaignID    id       `json:"campaign_id" idType:"campaign_id"`
	OrderID       id       `json:"order_id" idType:"order_id"`
	CreativeID    id       `json:"creative_id"`
	AssetID       id       `json:"asset_id" idType:"asset_id"`
	DealID        id       `json:"deal_id" idType:"deal_id"`
	DisplayTime   *float64 `json:"display_time"` // seconds since 1970
	Milliseconds  *float64 `json:"length_in_milliseconds"`
	Seconds       *float64 `json:"length_in_seconds"`
}

func (p *play) readVistar(value jsontext.Value) {
	v := vistarPlay{VenueID: p.listed.of}
	if p.decode(value, &v); p.fault != nil {
		return
	}
	if v.VenueID == "" {
		v.VenueID = p.listed.of
	}
	p.named(p.ids, map[string]id{
		"venue_id": v.VenueID, "display_area_id": v.DisplayAreaID, "campaign_id": v.CampaignID, "order_id": v.OrderID,
		"creative_id": v.CreativeID, "asset_id": v.AssetID, "deal_id": v.DealID,
	})
	p.text(&p.row.RowID, "id", string(v.ID))
	p.text(&p.row.SpatialPlacementID, "display_area_id", string(v.DisplayAreaID))
	p.text(&p.row.CorrelationID, "creative_id", string(v.CreativeID))
	p.played("display_time", p.epoch("display_time", v.DisplayTime, time.Second))
	if v.Milliseconds != nil {
		p.dwell("length_in_milliseconds", *v.Milliseconds)
	} else {
		p.needed("length_in_seconds", v.Seconds, func(field string, seconds float64) { p.dwell(field, ofSeconds(seconds)) })
	}
}
