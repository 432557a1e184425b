package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// BlobSize reads how many bytes the blob of a digest has.
func (r *Registry) BlobSize(ctx context.Context, digest string) (int64, error) {
	return r.size(ctx, "blob", `SELECT size FROM release_blobs WHERE digest = ?`, digest)
}

// size reads the size of the blob or upload that a query finds by its id.
func (r *Registry) size(ctx context.Context, noun, query, id string) (size int64, err error) {
	if err = valid.Reference(noun, id); err == nil {
		err = r.db.QueryRow(ctx, query, id).Scan(&size)
	}
	return size, db.Fail("read size of "+noun, err)
}

// HoldsBlob reports whether what is kept as the blob of a digest has that digest still: a disk
// may have spoilt it.
func (r *Registry) HoldsBlob(ctx context.Context, digest string) (bool, error) {
	const op = "check blob"
	if err := valid.Reference("blob", digest); err != nil {
		return false, db.Fail(op, err)
	}
	upload, total, err := r.blob(ctx, digest)
	if err != nil {
		return false, db.Fail(op, err)
	}
	_, got, err := r.digest(ctx, upload, total)
	if errors.Is(err, errPieceMissing) {
		return false, nil
	}
	return got == digest, db.Fail(op, err)
}

// errPieceMissing is the error of a blob that is not whole.
var errPieceMissing = errors.New("a piece of it is missing")

// ReadBlob reads the blob of a digest from an offset on: at least one byte and
// up to most, as many as lie together; none at its end.
func (r *Registry) ReadBlob(ctx context.Context, digest string, offset int64, most int) ([]byte, error) {
	const op = "read blob"
	if err := valid.Reference("blob", digest); err != nil {
		return nil, db.Fail(op, err)
	}
	if offset < 0 || most <= 0 {
		return nil, db.Fail(op, valid.Errorf("offset"))
	}
	upload, size, err := r.blob(ctx, digest)
	if err != nil {
		return nil, db.Fail(op, err)
	}
	if offset >= size {
		return nil, nil
	}
	piece, start, err := r.piece(ctx, upload, offset)
	if err != nil {
		return nil, db.Fail(op, err)
	}
	rest := piece[min(offset-start, int64(len(piece))):]
	if len(rest) == 0 {
		return nil, db.Fail(op, errPieceMissing)
	}
	return slices.Clip(rest[:min(len(rest), most)]), nil
}

// blob reads which upload has become the blob of a digest, and its size.
func (r *Registry) blob(ctx context.Context, digest string) (upload string, size int64, err error) {
	err = r.db.QueryRow(ctx, `SELECT upload, size FROM release_blobs WHERE digest = ?`, digest).Scan(&upload, &size)
	return upload, size, err
}

// piece reads the piece of an upload that holds the byte at an offset.
func (r *Registry) piece(ctx context.Context, upload string, offset int64) (content []byte, start int64, err error) {
	err = r.db.QueryRow(ctx, `SELECT start, content FROM release_pieces WHERE upload = ? AND start <= ? ORDER BY start DESC LIMIT 1`,
		upload, offset).Scan(&start, &content)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w: upload", store.ErrNotFound)
	}
	return content, start, err
}
