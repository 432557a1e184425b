package console

import "partneredge/edge/adminapi"

// keyDay is a day of a key's use, with its bar in a box 100 wide.
type keyDay struct {
	adminapi.KeyDay
	Served, Limited float64
}

// key reads one key with what it was used for.
func key(v *visit) (view, error) {
	var data struct {
		adminapi.Key
		Days []keyDay
	}
	if err := v.get("/keys/"+v.id(), &data.Key); err != nil {
		return view{}, err
	}
	var used adminapi.List[adminapi.KeyDay]
	if err := v.get("/keys/"+v.id()+"/usage?days=30", &used); err != nil {
		return view{}, err
	}
	most := int64(1)
	for _, d := range used.Items {
		most = max(most, d.Requests)
	}
	for _, d := range used.Items {
		data.Days = append(data.Days, keyDay{
			KeyDay: d, Served: 100 * float64(d.Requests-d.Limited) / float64(most), Limited: 100 * float64(d.Limited) / float64(most),
		})
	}
	title := data.Label
	if title == "" {
		title = "Key"
	}
	return view{page: "key", Title: title, Section: "accounts", Data: data}, nil
}
