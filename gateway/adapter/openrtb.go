package adapter

import (
	"math"
	"reflect"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// openRTB is billing notices of OpenRTB 2.6 for digital out-of-home, of which the standard
// describes the parts: the bid request and the bid that won, and what the macros of its burl
// stood for when that was called.
// https://github.com/InteractiveAdvertisingBureau/openrtb2.x/blob/main/2.6.md
//
//	{"bidrequest": {…}, "bid": {…}, "macros": {"AUCTION_IMP_TS": "1792864800000", "AUCTION_MULTIPLIER": "12.5"}}
//
// AUCTION_IMP_TS is when it was shown; dt of the impression is an estimate and no proof. The
// multiplier is AUCTION_MULTIPLIER, at most that of the impression's qty, or that. An exchange bills an
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
		Imp  jsontext.Value `json:"imp"`
		DOOH *struct {
			ID string `json:"id" idType:"dooh.id"`
		} `json:"dooh"`
	} `json:"bidrequest"`
	Bid struct {
		ImpID  string   `json:"impid"`
		CID    string   `json:"cid" idType:"bid.cid"`
		CrID   string   `json:"crid"`
		DealID string   `json:"dealid" idType:"bid.dealid"`
		Dur    *float64 `json:"dur"` // seconds
	} `json:"bid"`
	Macros struct {
		Shown      decimal `json:"AUCTION_IMP_TS"` // milliseconds since 1970
		Multiplier decimal `json:"AUCTION_MULTIPLIER"`
	} `json:"macros"`
}

type openRTBImp struct {
	TagID string `json:"tagid" idType:"imp.tagid"`
	Qty   struct {
		Multiplier decimal `json:"multiplier"`
	} `json:"qty"`
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
	imp, ok := p.impression(v)
	if !ok {
		return
	}
	p.named(p.ids, map[string]id{
		"dooh.id": id(v.Request.DOOH.ID), "imp.tagid": id(imp.TagID),
		"bid.cid": id(v.Bid.CID), "bid.crid": id(v.Bid.CrID), "bid.dealid": id(v.Bid.DealID),
	})
	p.known("bidrequest.id", p.either("bidrequest.id", v.Request.ID), v.Bid.ImpID)
	p.text(&p.row.CorrelationID, "bid.crid", v.Bid.CrID)
	shown := p.number("macros.AUCTION_IMP_TS", string(v.Macros.Shown))
	p.played("macros.AUCTION_IMP_TS", p.epoch("macros.AUCTION_IMP_TS", shown, time.Millisecond))
	switch {
	case v.Bid.Dur != nil && *v.Bid.Dur != math.Trunc(*v.Bid.Dur):
		p.refuse("bid.dur", "must be a whole number")
	case v.Bid.Dur != nil && *v.Bid.Dur != 0:
		p.dwell("bid.dur", *v.Bid.Dur*1000)
	case p.usualDwell == nil:
		p.refuse("bid.dur", "is missing: say with the parameter dwellMs how long a play is")
	default:
		p.dwell("bid.dur", *p.usualDwell)
	}
	p.quantity(string(v.Macros.Multiplier), string(imp.Qty.Multiplier))
}

// impression is that of the request on which the bid was made; the others are not looked at.
func (p *play) impression(v *openRTBNotice) (imp openRTBImp, ok bool) {
	if v.Request.Imp != nil && v.Request.Imp.Kind() != jsontext.KindBeginArray {
		p.refuse("bidrequest.imp", "must be an array")
		return imp, false
	}
	for _, value := range elements("", v.Request.Imp) {
		if value.Kind() != jsontext.KindBeginObject {
			continue
		}
		var name jsontext.Value
		if members(value, map[string]*jsontext.Value{"id": &name}) != nil || name.Kind() != jsontext.KindString {
			continue
		}
		if text, err := jsontext.AppendUnquote(nil, name); err == nil && string(text) == v.Bid.ImpID && len(text) > 0 {
			p.read("bidrequest.imp", value, reflect.ValueOf(&imp).Elem())
			return imp, p.fault == nil
		}
	}
	p.refuse("bid.impid", "is the id of none of bidrequest.imp")
	return imp, false
}

// quantity fills in the multiplier: what the exchange billed, but not more than the quantity that the
// request offered.
func (p *play) quantity(billed, offered string) {
	const macro, qty = "macros.AUCTION_MULTIPLIER", "bidrequest.imp.qty.multiplier"
	if p.single {
		return
	}
	if billed == "" {
		p.multiplier(qty, offered)
		return
	}
	most, count := p.number(qty, offered), p.number(macro, billed)
	if most != nil && count != nil && *count > *most {
		p.multiplier(qty, offered)
		return
	}
	p.multiplier(macro, billed)
}
