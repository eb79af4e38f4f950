package gate

import "fmt"

// Substrate is the kind of surface a delivery is rendered on. Its text form is
// the name in the contract, in exact case.
type Substrate uint8

// The substrates, in the order of the contract.
const (
	DOOH Substrate = iota
	CTV
	Mobile
	Streaming
	Audio
	Messaging
	Gaming
	Glasses
	ARContacts
	HUD
	Volumetric
	Hologram
	Wearables
	Ambient
	Neural
	Automotive // a visual surface in a car; sound in a car is Audio
	SmartHome
	Robotics
	Drone
	Satellite
	Aviation
	Maritime
	SocialFeed
	Any // not a surface: a right for whichever of the others

	// Substrates counts them: 23 concrete ones and Any.
	Substrates = 24
)

var substrateNames = [Substrates]string{
	"DOOH", "CTV", "MOBILE", "STREAMING", "AUDIO", "MESSAGING", "GAMING", "GLASSES",
	"AR_CONTACTS", "HUD", "VOLUMETRIC", "HOLOGRAM", "WEARABLES", "AMBIENT", "NEURAL", "AUTOMOTIVE",
	"SMART_HOME", "ROBOTICS", "DRONE", "SATELLITE", "AVIATION", "MARITIME", "SOCIAL_FEED", "ANY",
}

// String is the name in the contract.
func (s Substrate) String() string {
	if s < Substrates {
		return substrateNames[s]
	}
	return fmt.Sprintf("Substrate(%d)", uint8(s))
}

// ParseSubstrate reads what String writes, in exact case.
func ParseSubstrate(name string) (Substrate, bool) {
	for s, n := range substrateNames {
		if n == name {
			return Substrate(s), true
		}
	}
	return 0, false
}

// MarshalText writes the name in the contract.
func (s Substrate) MarshalText() ([]byte, error) {
	if s >= Substrates {
		return nil, fmt.Errorf("%v is not a substrate", s)
	}
	return []byte(substrateNames[s]), nil
}

// UnmarshalText reads the name in the contract, in exact case.
func (s *Substrate) UnmarshalText(text []byte) error {
	p, ok := ParseSubstrate(string(text))
	if !ok {
		return fmt.Errorf("%q is not a substrate", text)
	}
	*s = p
	return nil
}

// surfaces is a set of substrates: where a rule holds.
type surfaces uint32

func on(list ...Substrate) surfaces {
	var set surfaces
	for _, s := range list {
		set |= 1 << s
	}
	return set
}

func (set surfaces) and(list ...Substrate) surfaces    { return set | on(list...) }
func (set surfaces) except(list ...Substrate) surfaces { return set &^ on(list...) }
func (set surfaces) has(s Substrate) bool              { return set&(1<<s) != 0 }

// list is the substrates of the set in order.
func (set surfaces) list() (list []Substrate) {
	for s := range Substrate(Substrates) {
		if set.has(s) {
			list = append(list, s)
		}
	}
	return list
}

// The sets that the tables name. Only everywhere, visual and inApp hold Any.
var (
	everywhere = surfaces(1<<Substrates - 1)
	concrete   = everywhere.except(Any)
	visual     = everywhere.except(Audio, Messaging)
	inApp      = visual.except(Ambient, SmartHome, Robotics, Satellite)

	immersive = on(Glasses, ARContacts, Volumetric, Neural, Gaming)
	spatial   = immersive.and(HUD, Hologram, Mobile, Wearables, Ambient, Robotics, SmartHome, Drone)
	camera    = on(Glasses, ARContacts, Volumetric, Gaming, Wearables, Ambient, Robotics, Drone, SmartHome, Mobile)
)
