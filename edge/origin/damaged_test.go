package origin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/wire"
	"partneredge/store"
)

// exec changes the database behind the origin's back.
func (f *fixture) exec(statement string, args ...any) {
	f.Helper()
	if _, err := f.database().ExecContext(f.Context(), statement, args...); err != nil {
		f.Fatal(err)
	}
}

// TestDamagedKeyFailsAlone has nodes ask, alone and with others, for a key whose row is
// damaged. It is neither known nor unknown, the others are answered, and the log has one
// line of it, however often it is asked for. A node that reads no partial answers gets a
// failure.
func TestDamagedKeyFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	one, plain1 := f.key(account, "live")
	bad, plainBad := f.key(account, "live")
	f.exec(`UPDATE keys SET scopes = '[' WHERE id = ?`, bad)
	node := f.enrol("n1")
	request := wire.KeyRequest{Head: head, Hash: hashOf(plainBad), Bare: true}
	for range 3 {
		if reply := ask[wire.KeyReply](node, wire.VerbKey, request); reply.Failure != wire.Internal || reply.Key != nil {
			t.Errorf("alone: got %+v", reply)
		}
	}
	request.More = [][]byte{hashOf(plain1), hashOf("none"), hashOf(plainBad)}
	if reply := ask[wire.KeyReply](node, wire.VerbKey, request); reply.Failure != wire.Internal || len(reply.Keys) != 0 {
		t.Errorf("an older node got %+v", reply)
	}
	request.Partial = true
	for range 3 {
		reply := ask[wire.KeyReply](node, wire.VerbKey, request)
		if reply.Failure != "" || len(reply.Keys) != 4 || reply.Keys[1] == nil || reply.Keys[1].ID != one {
			t.Fatalf("with others: got %+v", reply)
		}
		if !slices.Equal(reply.Unread, []int{0, 3}) || reply.Keys[0] != nil || reply.Keys[2] != nil || reply.Keys[3] != nil {
			t.Errorf("with others: unread are %v of %v", reply.Unread, reply.Keys)
		}
	}
	again := wire.KeysRequest{Head: head, Hashes: [][]byte{hashOf(plain1), hashOf(plainBad), hashOf("none")}}
	if reply := ask[wire.KeysReply](node, wire.VerbKeys, again); reply.Failure != wire.Internal || len(reply.Keys) != 0 {
		t.Errorf("asking again: an older node got %+v", reply)
	}
	again.Partial = true
	reply := ask[wire.KeysReply](node, wire.VerbKeys, again)
	if reply.Failure != "" || len(reply.Keys) != 3 || reply.Keys[0] == nil || reply.Keys[0].ID != one || reply.Keys[1] != nil || reply.Keys[2] != nil {
		t.Errorf("asking again: got %+v", reply)
	}
	if !slices.Equal(reply.Unread, []int{1}) {
		t.Errorf("asking again: unread are %v", reply.Unread)
	}
	f.wantOneLine(bad)
	const unread = 3 + 1 + 3*2 + 1 + 1 // alone, of an older node, twice in each question with others, asking again
	if _, _, text := f.send("GET", "/metrics", nil, ""); !strings.Contains(string(text), fmt.Sprintf("\nedge_origin_unread_keys_total %d\n", unread)) {
		t.Errorf("%d unread keys are not counted in %s", unread, text)
	}
}

// TestUnwritableAnswer: what the database holds cannot be written to a message. The node gets
// a failure at once instead of nothing, and the log has one line of it.
func TestUnwritableAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	keyID, _ := f.key(account, "live")
	node := f.enrol("n1")
	f.exec(`INSERT INTO insights (id, account_id, headline, detail, created_at) VALUES ('ins_1', ?, 'h', 'd', 253402300800000000)`, account)
	view := wire.ViewRequest{Head: head, AccountID: account, KeyHash: f.hash(keyID), Kind: store.ChangeInsights}
	for range 3 {
		if reply := ask[wire.ViewReply](node, wire.VerbView, view); reply.Failure != wire.Internal || reply.V != wire.Version || len(reply.Insights) != 0 {
			t.Errorf("got %+v", reply)
		}
	}
	f.wantOneLine("unwritable answer")
}

// wantOneLine fails the test unless one line of the log is an error that has a text.
func (f *fixture) wantOneLine(text string) {
	f.Helper()
	lines := 0
	for line := range strings.Lines(f.logs.String()) {
		if strings.Contains(line, "level=ERROR") {
			lines++
			if !strings.Contains(line, text) {
				f.Errorf("logged: %s", line)
			}
		}
	}
	if lines != 1 {
		f.Errorf("%d errors are logged", lines)
	}
}
