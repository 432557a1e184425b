package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"partneredge/edge/release"
	"partneredge/store"
	"partneredge/store/central"
)

const (
	chunkSize = 1 << 20 // bytes that are read or written at once
	chunkTime = 30 * time.Second
)

func (g *registry) getBlob(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("digest")
	const none = "there is no such blob"
	size, err := g.store.BlobSize(r.Context(), name)
	if err != nil {
		return unknown(err, "BLOB_UNKNOWN", none)
	}
	bound := &g.reads
	if r.Method == http.MethodHead {
		bound = &g.checks
	}
	leave, err := bound.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	// Clients ask so what they need not push. What a disk has spoilt is to be pushed again.
	if r.Method == http.MethodHead {
		if whole, err := g.store.HoldsBlob(r.Context(), name); err != nil {
			return unknown(err, "BLOB_UNKNOWN", none)
		} else if !whole {
			return &problem{http.StatusNotFound, "BLOB_UNKNOWN", none}
		}
	}
	// The time limit grows with the size, so that a slow client can get the largest
	// blob.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(chunkTime * time.Duration(1+size/chunkSize)))
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Docker-Content-Digest", name)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, &blobReader{ctx: r.Context(), store: g.store, digest: name, size: size})
	return nil
}

// blobReader implements io.ReadSeeker on a blob.
type blobReader struct {
	ctx    context.Context // of the request
	store  *central.DB
	digest string
	size   int64

	at    int64
	chunk bytes.Reader // the bytes at the offset
}

func (b *blobReader) Read(p []byte) (int, error) {
	if b.chunk.Len() == 0 {
		next, err := b.store.ReadBlob(b.ctx, b.digest, b.at, chunkSize)
		if err != nil {
			return 0, err
		}
		b.chunk.Reset(next)
	}
	n, err := b.chunk.Read(p)
	b.at += int64(n)
	return n, err
}

func (b *blobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking to %d", offset)
	}
	b.at = offset
	b.chunk.Reset(nil)
	return offset, nil
}

// beginUpload starts an upload. With ?digest the body is all of it.
func (g *registry) beginUpload(w http.ResponseWriter, r *http.Request) error {
	id, err := g.store.BeginUpload(r.Context())
	if err != nil {
		return err
	}
	if r.URL.Query().Has("digest") {
		if err := g.finish(w, r, id); err != nil {
			// Nobody knows its id, so nobody could go on with it.
			if failed := g.store.CancelUpload(context.WithoutCancel(r.Context()), id); failed != nil && !errors.Is(failed, store.ErrNotFound) {
				g.log.Warn("an upload that failed waits to be given up", "err", failed)
			}
			return err
		}
		return nil
	}
	uploading(w, http.StatusAccepted, id, 0)
	return nil
}

func (g *registry) showUpload(w http.ResponseWriter, r *http.Request) error {
	size, err := g.store.UploadSize(r.Context(), r.PathValue("id"))
	if err != nil {
		return uploadUnknown(err)
	}
	uploading(w, http.StatusNoContent, r.PathValue("id"), size)
	return nil
}

func (g *registry) appendUpload(w http.ResponseWriter, r *http.Request) error {
	size, err := g.receive(w, r, r.PathValue("id"))
	if err != nil {
		return err
	}
	uploading(w, http.StatusAccepted, r.PathValue("id"), size)
	return nil
}

func (g *registry) finishUpload(w http.ResponseWriter, r *http.Request) error {
	return g.finish(w, r, r.PathValue("id"))
}

func (g *registry) cancelUpload(w http.ResponseWriter, r *http.Request) error {
	if err := g.store.CancelUpload(r.Context(), r.PathValue("id")); err != nil {
		return uploadUnknown(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// finish adds the body to an upload, which then becomes a blob.
func (g *registry) finish(w http.ResponseWriter, r *http.Request, id string) error {
	name := r.URL.Query().Get("digest")
	if release.CheckDigest(name) != nil {
		return &problem{http.StatusBadRequest, "DIGEST_INVALID", "?digest must be sha256: and 64 hexadecimal digits"}
	}
	if _, err := g.receive(w, r, id); err != nil {
		return err
	}
	err := g.store.FinishUpload(r.Context(), id, name)
	switch {
	case errors.Is(err, store.ErrInvalid):
		return &problem{http.StatusBadRequest, "DIGEST_INVALID", "the content has another digest, or is empty"}
	case err != nil:
		return uploadUnknown(err)
	}
	w.Header().Set("Location", Root+Repository+"/blobs/"+name)
	w.Header().Set("Docker-Content-Digest", name)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// rangeForm is the form of Content-Range in the distribution specification.
var rangeForm = regexp.MustCompile(`^([0-9]{1,18})-([0-9]{1,18})$`)

// receive adds the body to an upload, chunk by chunk, and returns the new size.
func (g *registry) receive(w http.ResponseWriter, r *http.Request, id string) (size int64, err error) {
	if size, err = g.store.UploadSize(r.Context(), id); err != nil {
		return 0, uploadUnknown(err)
	}
	if text := r.Header.Get("Content-Range"); text != "" {
		m := rangeForm.FindStringSubmatch(text)
		if m == nil {
			return 0, &problem{http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "Content-Range must be FIRST-LAST"}
		}
		if first, _ := strconv.ParseInt(m[1], 10, 64); first != size { // has at most 18 digits
			return 0, outOfOrder(size)
		}
	}
	// The time limit is for each chunk, as in getBlob.
	deadline := http.NewResponseController(w)
	buffer := make([]byte, chunkSize)
	for {
		_ = deadline.SetReadDeadline(time.Now().Add(chunkTime))
		_ = deadline.SetWriteDeadline(time.Now().Add(2 * chunkTime))
		n, err := fill(r.Body, buffer)
		if size+int64(n) > release.MaxWasm {
			_ = g.store.CancelUpload(r.Context(), id) // else it expires
			return 0, &problem{http.StatusRequestEntityTooLarge, "SIZE_INVALID", fmt.Sprintf("a blob has at most %d bytes", release.MaxWasm)}
		}
		if n > 0 {
			switch err := g.store.AppendUpload(r.Context(), id, size, buffer[:n]); {
			case errors.Is(err, store.ErrConflict):
				return 0, outOfOrder(size)
			case err != nil:
				return 0, uploadUnknown(err)
			}
			size += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return 0, &problem{http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "the body could not be read"}
		}
	}
}

// fill reads until the buffer is full. Unlike io.ReadFull it distinguishes a body
// that has ended from one that was cut off.
func fill(from io.Reader, buffer []byte) (n int, err error) {
	for n < len(buffer) && err == nil {
		var more int
		more, err = from.Read(buffer[n:])
		n += more
	}
	return n, err
}

func outOfOrder(size int64) error {
	return &problem{http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", fmt.Sprintf("the upload has %d bytes: go on from there", size)}
}

func uploadUnknown(err error) error {
	return unknown(err, "BLOB_UPLOAD_UNKNOWN", "there is no such upload, or it has ended")
}

// uploading answers with the progress of an upload.
func uploading(w http.ResponseWriter, status int, id string, size int64) {
	h := w.Header()
	h.Set("Location", Root+Repository+"/blobs/uploads/"+id)
	h.Set("Docker-Upload-Uuid", id)
	h.Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	w.WriteHeader(status)
}
