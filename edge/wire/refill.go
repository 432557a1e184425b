package wire

import "partneredge/store"

// MaxRefill is the most keys that one KeysRequest asks for.
const MaxRefill = 500

// KeysRequest asks again for keys that the node holds, by their SHA-256: after a reset,
// when it cannot know what changed. An origin that does not know it gives no answer, and
// each key is then asked for when a request needs it. Partial says that the node reads
// KeysReply.Unread.
type KeysRequest struct {
	Head
	Hashes  [][]byte `json:"hashes,omitempty"`
	Partial bool     `json:"partial,omitempty"`
}

// KeysReply holds the keys in the order of their hashes, which it leaves out, and nil in
// the place of a key that there is not. Unread are the places of keys that the origin could
// not read, as in KeyReply. Seq is the last change that the keys include.
type KeysReply struct {
	Head
	Keys   []*store.Key `json:"keys,omitempty"`
	Unread []int        `json:"unread,omitempty"`
	Seq    int64        `json:"seq"`
}
