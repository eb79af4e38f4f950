package gateway

import "muniment/sealer"

// BodyDecoder reads the body of a delivery exactly as the gateway does, for
// whoever measures the gateway against less than a gateway. The zero value is
// ready; it is for one goroutine.
type BodyDecoder struct{ observation observation }

// Decode puts what a receipt takes from the body into r. r's strings are views of
// the body and of d: they are valid until either is used again.
func (d *BodyDecoder) Decode(body []byte, r *sealer.Receipt) error {
	if err := d.observation.decode(body); err != nil {
		return err
	}
	d.observation.describe(r)
	return nil
}

// describe fills in what the caller said of the delivery.
func (o *observation) describe(r *sealer.Receipt) {
	r.DwellMs, r.SpatialAnchorID = o.dwellMs, o.spatialAnchorID
	r.SpatialPlacementID, r.CorrelationID = nil, nil
	if o.hasPlacement {
		r.SpatialPlacementID = &o.placement
	}
	if o.hasCorrelation {
		r.CorrelationID = &o.correlation
	}
}
