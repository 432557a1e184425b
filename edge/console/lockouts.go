package console

import (
	"fmt"
	"strings"

	"partneredge/edge/adminapi"
)

// lockouts reads the addresses that nodes refuse. The filter of the page's own query
// is an address or a network.
func lockouts(v *visit) (view, error) {
	var data struct {
		adminapi.Lockouts
		Network string
		More    int // that are not listed
	}
	data.Network = strings.TrimSpace(v.URL.Query().Get("network"))
	shown := view{page: "lockouts", Title: "Lockouts", Section: "lockouts"}
	err := v.get("/lockouts?"+v.query("network"), &data.Lockouts)
	data.More = data.Total - len(data.Items)
	shown.Data = data
	return shown, err
}

// clearLockouts ends the lockouts of an address at every node.
func clearLockouts(v *visit) (notice, string, error) {
	var done adminapi.ClearedLockouts
	err := v.post("/lockouts/clear", adminapi.LockoutSelection{Network: v.field("network")}, &done)
	text := fmt.Sprintf("Lockouts ended: %d.", done.Cleared)
	for _, n := range done.Unreached {
		text += fmt.Sprintf(" Not asked: %s in %s, %s.", n.Node, n.Region, n.Reason)
	}
	return notice{Text: text, Failed: len(done.Unreached) > 0}, Path + "lockouts", err
}
