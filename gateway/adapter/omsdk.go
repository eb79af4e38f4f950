package adapter

import (
	"cmp"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// omSDK is the events that the Open Measurement SDK hands to a measurement script, as it logs
// them: an array, or one behind the other. Those of one adSessionId become one row.
// https://interactiveadvertisingbureau.github.io/Open-Measurement-SDKiOS/validation.html
// https://github.com/InteractiveAdvertisingBureau/Open-Measurement-JSClients/blob/master/src/common/event-typedefs.js
//
// viewable and audible are computed as the MRC's guidelines say: half of the pixels in view for
// a second on end, or two of a video that plays; sound for two seconds on end.
// https://mediaratingcouncil.org/standards-and-guidelines
//
// The vendorId is what the ad gave the script as its verificationParameters. Device, page and
// content are not taken over: they are about people.
var omSDK = Format{
	Name:    "omsdk",
	ids:     []string{"verificationParameters", "customReferenceData", "appId"},
	options: []string{optionIDType, optionLength, optionVendor},
	kind:    Events,
	event:   func(d *document, all *sessions, text []byte) { d.readOM(all, "", text) },
	read:    (*document).readSessions,
}

type omEvent struct {
	AdSessionID string   `json:"adSessionId"`
	Timestamp   *float64 `json:"timestamp"` // milliseconds since 1970
	Type        string   `json:"type"`
	Data        struct {
		VerificationParameters string `json:"verificationParameters" idType:"verificationParameters"`
		Context                struct {
			CustomReferenceData jsontext.Value `json:"customReferenceData" idType:"customReferenceData"` // a string, or anything
			App                 struct {
				AppID string `json:"appId" idType:"appId"`
			} `json:"app" idType:"appId"`
		} `json:"context" idType:"customReferenceData,appId"`
		Duration     *float64 `json:"duration"` // seconds, of the ad
		MediaType    string   `json:"mediaType"`
		CreativeType string   `json:"creativeType"`
		AdView       struct {
			PercentageInView *float64 `json:"percentageInView"`
		} `json:"adView"`
		MediaPlayerVolume *float64 `json:"mediaPlayerVolume"`
		VideoPlayerVolume *float64 `json:"videoPlayerVolume"` // its name before version 1.3
		DeviceVolume      *float64 `json:"deviceVolume"`
	} `json:"data"`
}

var omKinds = map[string]happening{
	"impression": shown, "start": started, "firstQuartile": quarter, "midpoint": half, "thirdQuartile": threeQuarters, "complete": completed,
	"pause": paused, "bufferStart": paused, "resume": resumed, "bufferFinish": resumed, "skipped": skipped, "sessionFinish": ended, "sessionError": ended,
}

func (d *document) readSessions() error {
	values, err := d.values()
	if err != nil {
		return err
	}
	var all sessions
	for place, value := range values {
		if d.readOM(&all, place, value); len(all.order) == mostSessions {
			break
		}
	}
	all.emit(d, "type", "timestamp", func(p *play, s *session) { p.named(p.ids, s.ids) })
	return nil
}

func (d *document) readOM(all *sessions, place string, value jsontext.Value) {
	p := d.play(place)
	var v omEvent
	p.decode(value, &v)
	p.text(&p.row.RowID, "adSessionId", p.either("adSessionId", v.AdSessionID))
	at := p.epoch("timestamp", v.Timestamp, time.Millisecond)
	p.either("type", v.Type)
	s := all.of(v.AdSessionID, p)
	if p.fault != nil {
		return
	}
	s.moments = append(s.moments, moment{at: at, kind: omKinds[v.Type]})
	data := &v.Data
	s.say("verificationParameters", id(data.VerificationParameters))
	s.say("appId", id(data.Context.App.AppID))
	if reference := data.Context.CustomReferenceData; len(reference) <= maxValue && reference.Kind() == jsontext.KindString {
		if text, err := jsontext.AppendUnquote(nil, reference); err == nil {
			s.say("customReferenceData", id(text))
		}
	}
	if data.Duration != nil {
		s.lasts(time.Duration(min(*data.Duration*1000, maxDwellMs) * float64(time.Millisecond)))
	}
	switch {
	case v.Type == "start", data.MediaType == "video", data.MediaType == "audio", data.CreativeType == "video", data.CreativeType == "audio":
		s.video = true
	}
	if share := data.AdView.PercentageInView; share != nil {
		s.moments = append(s.moments, moment{at: at, kind: inView, on: *share >= 50})
	}
	if volume := cmp.Or(data.MediaPlayerVolume, data.VideoPlayerVolume); volume != nil {
		on := *volume > 0 && (data.DeviceVolume == nil || *data.DeviceVolume > 0)
		s.moments = append(s.moments, moment{at: at, kind: audible, on: on})
	}
}
