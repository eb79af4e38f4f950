package adapter

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// broadsign is the request that a Broadsign player sends to the server of the Real-Time POP
// API, in its short form, where a play is an array, and in the verbose one:
// https://docs.broadsign.com/broadsign-control/latest/real-time-pop-api.html
//
// end_time is what the player's clock shows, without its zone. The frame is the placement: a
// display unit plays in several at once. Broadsign gives a play no id of its own: it is the player's,
// as two that are synchronised play on one display unit, in a frame, at a time.
var broadsign = Format{
	Name:    "broadsign",
	ids:     []string{"display_unit_id", "frame_id", "player_id", "campaign_id", "schedule_id", "ad_copy_id"},
	options: []string{optionIDType, optionMultiplier, optionZone, optionVendor},
	lists:   []string{"pop"},
	beside:  "player_id",
	play:    reflect.TypeFor[broadsignPlay](),
	read:    func(d *document) error { return d.eachList((*play).readBroadsign) },
}

type broadsignPlay struct {
	DisplayUnitID wholeID  `json:"display_unit_id" idType:"display_unit_id"`
	FrameID       wholeID  `json:"frame_id"`
	AdCopyID      wholeID  `json:"ad_copy_id"`
	CampaignID    wholeID  `json:"campaign_id" idType:"campaign_id"`
	ScheduleID    wholeID  `json:"schedule_id" idType:"schedule_id"`
	Impressions   decimal  `json:"impressions"`
	EndTime       string   `json:"end_time"`
	Duration      *float64 `json:"duration"` // milliseconds
}

// broadsignOrder is that of the values in the short form. Behind them stand three of the
// network's own, which may say anything of anybody.
var broadsignOrder = []string{"display_unit_id", "frame_id", "n_screens", "ad_copy_id", "campaign_id", "schedule_id", "impressions", "interactions", "end_time", "duration"}

func (p *play) readBroadsign(value jsontext.Value) {
	var v broadsignPlay
	player := p.listed.of.whole()
	if value.Kind() == jsontext.KindBeginArray {
		value = p.keyed(value, broadsignOrder)
		p.listed.value = value
	}
	if p.decode(value, &v); p.fault != nil {
		return
	}
	p.named(p.ids, map[string]id{
		"display_unit_id": id(v.DisplayUnitID), "frame_id": id(v.FrameID), "player_id": player,
		"campaign_id": id(v.CampaignID), "schedule_id": id(v.ScheduleID), "ad_copy_id": id(v.AdCopyID),
	})
	p.text(&p.row.SpatialPlacementID, "frame_id", string(v.FrameID))
	p.text(&p.row.CorrelationID, "ad_copy_id", string(v.AdCopyID))
	p.multiplier("impressions", string(v.Impressions))
	p.needed("duration", v.Duration, p.dwell)
	if end := p.clock("end_time", v.EndTime); p.fault == nil {
		p.played("end_time", p.before(end))
		p.endsIn = p.beginsIn
		if player != "" {
			p.known("player_id", string(player), p.row.VendorID, string(v.FrameID), p.row.PlayedAt)
		}
	}
}
