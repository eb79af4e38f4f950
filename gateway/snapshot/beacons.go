package snapshot

import (
	"sync"

	"muniment.example/gateway/api"
)

// beaconKeys are all keys that ever signed beacons, as far as the feed has been applied.
type beaconKeys struct {
	mu  sync.RWMutex
	all map[string]*api.BeaconKey
}

func (b *beaconKeys) learn(c *api.Change) error {
	k, err := api.BeaconKeys.Read(c)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.all[k.ID]; known != nil && known.Revision > k.Revision {
		return nil
	}
	if b.all == nil {
		b.all = map[string]*api.BeaconKey{}
	}
	b.all[k.ID] = k
	return nil
}

// BeaconKey returns a key that signs beacons, nil if the feed has named none with this id. It is
// shared and must not be changed. There is no request to control.
func (v *View) BeaconKey(id string) *api.BeaconKey {
	v.beacons.mu.RLock()
	defer v.beacons.mu.RUnlock()
	return v.beacons.all[id]
}
