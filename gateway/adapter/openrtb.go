package adapter

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prebid/openrtb/v20/openrtb2"
)

// openRTB is billing notices of OpenRTB 2.6 for digital out-of-home, of which the standard
// describes the parts: the bid request and the bid that won, and what the macros of its burl
// stood for when that was called.
// https://github.com/InteractiveAdvertisingBureau/openrtb2.x/blob/main/2.6.md
//
//	{"bidrequest": {…}, "bid": {…}, "macros": {"AUCTION_IMP_TS": "1792864800000", "AUCTION_MULTIPLIER": "12.5"}}
//
// AUCTION_IMP_TS is when it was shown; dt of the impression is an estimate and no proof. The
// multiplier is AUCTION_MULTIPLIER, or that of the impression's qty. An exchange bills an
// impression of a request once. Ids are one exchange's: who sells through several says which
// one with ?vendor=. Who has images says with ?dwellMs= how long they are shown, as dur is of
// videos.
var openRTB = Format{
	Name:    "openrtb",
	ids:     []string{"dooh.id", "imp.tagid", "bid.cid", "bid.crid", "bid.dealid"},
	options: []string{optionDwell, optionIDType, optionMultiplier, optionVendor},
	read:    func(d *document) error { return d.each(d.readOpenRTB) },
}

// openRTBNotice is what is read of one. user and device are not even looked at.
type openRTBNotice struct {
	Request struct {
		ID   string         `json:"id"`
		Imp  []openRTBImp   `json:"imp"`
		DOOH *openrtb2.DOOH `json:"dooh"`
	} `json:"bidrequest"`
	Bid    openrtb2.Bid `json:"bid"`
	Macros struct {
		Shown      decimal `json:"AUCTION_IMP_TS"` // milliseconds since 1970
		Multiplier decimal `json:"AUCTION_MULTIPLIER"`
	} `json:"macros"`
}

type openRTBImp struct {
	ID    string        `json:"id"`
	TagID string        `json:"tagid"`
	Qty   *openrtb2.Qty `json:"qty"`
}

func (d *document) readOpenRTB(place string, value jsontext.Value) error {
	p := d.play(place)
	var v openRTBNotice
	if p.decode(value, &v); p.fault == nil {
		p.readOpenRTB(&v)
	}
	d.emit(p)
	return nil
}

func (p *play) readOpenRTB(v *openRTBNotice) {
	if v.Request.DOOH == nil {
		p.refuse("bidrequest.dooh", "is missing: only notices of DOOH are accepted")
		return
	}
	var imp *openRTBImp
	for i := range v.Request.Imp {
		if v.Request.Imp[i].ID == v.Bid.ImpID {
			imp = &v.Request.Imp[i]
		}
	}
	if imp == nil || imp.ID == "" {
		p.refuse("bid.impid", "is the id of none of bidrequest.imp")
		return
	}
	p.named(p.ids, map[string]id{
		"dooh.id": id(v.Request.DOOH.ID), "imp.tagid": id(imp.TagID),
		"bid.cid": id(v.Bid.CID), "bid.crid": id(v.Bid.CrID), "bid.dealid": id(v.Bid.DealID),
	})
	p.known("bidrequest.id", p.either("bidrequest.id", v.Request.ID), imp.ID)
	p.text(&p.row.CorrelationID, "bid.crid", v.Bid.CrID)
	shown := p.number("macros.AUCTION_IMP_TS", string(v.Macros.Shown))
	p.played("macros.AUCTION_IMP_TS", p.epoch("macros.AUCTION_IMP_TS", shown, time.Millisecond))
	switch {
	case v.Bid.Dur != 0:
		p.dwell("bid.dur", float64(v.Bid.Dur)*1000)
	case p.usualDwell == nil:
		p.refuse("bid.dur", "is missing: say with the parameter dwellMs how long a play is")
	default:
		p.dwell("bid.dur", *p.usualDwell)
	}
	switch {
	case v.Macros.Multiplier != "":
		p.multiplier("macros.AUCTION_MULTIPLIER", string(v.Macros.Multiplier))
	case imp.Qty != nil:
		p.multiplier("bidrequest.imp.qty.multiplier", strconv.FormatFloat(imp.Qty.Multiplier, 'f', -1, 64))
	}
}
