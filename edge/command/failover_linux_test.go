package command

import (
	"net/http"
	"testing"

	"partneredge/edge/addresstest"
	"partneredge/store/central/centraltest"
)

// TestFailover promotes a standby that lacks what was written last, under a running
// origin. The next revocation gets the number of a change that the node has seen.
func TestFailover(t *testing.T) {
	t.Parallel()
	testFiles.get(t)
	dir := t.TempDir()
	primary := centraltest.NewServer(t, t.TempDir())
	standby := centraltest.NewStandby(t, primary, t.TempDir())
	o := &restoredOrigin{t: t, nats: addresstest.Fixed(t), flags: []string{"--database", primary.URL(standby)}}
	o.start(dir + "/origin")
	account := makeAccount(t, o.admin)
	n := enrolled(t, o.admin, dir, "eu", o.ready.NATSURL)
	n.start()
	victim, held := makeKey(t, o.admin, account, 1000), makeKey(t, o.admin, account, 1000)
	for _, key := range []string{victim.Plaintext, held.Plaintext} {
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	}
	standby.AwaitReplay(primary)
	standby.Crash()
	for _, name := range []string{"a", "b", "c"} { // what is lost
		o.call("PATCH", "/accounts/"+account, map[string]string{"name": name}, "")
	}
	o.inStep(n)
	primary.Crash()
	standby.Start()
	standby.Promote()
	await(t, "the key to be revoked", func() bool {
		return o.admin.Call(t.Context(), "POST", "/keys/"+victim.Key.ID+"/revoke", nil, nil) == nil
	})
	await(t, "the key to be refused", func() bool { return n.get(victim.Plaintext) == http.StatusUnauthorized })
	await(t, "the other to be served", func() bool { return n.get(held.Plaintext) == http.StatusOK })
	n.terminate()
	o.terminate()
}
