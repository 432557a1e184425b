// Package registry keeps the content of the OCI registry of releases: manifests,
// tags, blobs, and the uploads that become blobs.
package registry

import "partneredge/store/central/db"

// Registry reads and writes the content. It is safe for many goroutines.
type Registry struct{ db *db.DB }

// New makes the Registry of a database.
func New(d *db.DB) *Registry { return &Registry{db: d} }
