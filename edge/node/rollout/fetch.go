package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
)

// originSource implements release.Source by requests to the origin, chunk by
// chunk. A part lies in a file until it is whole, so that a connection that
// breaks, or a restart, costs one chunk. The caller verifies what it gets.
type originSource struct {
	origin  Origin
	parts   string // directory of parts that have begun to arrive
	timeout time.Duration
}

// Manifest implements release.Source.
func (s *originSource) Manifest(ctx context.Context, digest string) ([]byte, error) {
	return s.read(ctx, digest, release.MaxManifest)
}

// Blob implements release.Source.
func (s *originSource) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	return s.read(ctx, string(d.Digest), d.Size)
}

// Signatures implements release.Source.
func (s *originSource) Signatures(ctx context.Context, digest string) ([][]byte, error) {
	var reply wire.SignaturesReply
	err := s.ask(ctx, wire.VerbSignatures, &wire.SignaturesRequest{Digest: digest}, &reply)
	return reply.Signatures, err
}

// read returns a part of at most most bytes. It asks only for what is missing.
func (s *originSource) read(ctx context.Context, digest string, most int64) ([]byte, error) {
	if err := release.CheckDigest(digest); err != nil { // it becomes a file's name
		return nil, err
	}
	if err := os.MkdirAll(s.parts, 0o700); err != nil {
		return nil, fmt.Errorf("keep what is fetched: %w", err)
	}
	file := filepath.Join(s.parts, strings.TrimPrefix(digest, "sha256:"))
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep what is fetched: %w", err)
	}
	if int64(len(text)) > most {
		text = nil
	}
	if sum := sha256.Sum256(text); digest == "sha256:"+hex.EncodeToString(sum[:]) {
		return text, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep what is fetched: %w", err)
	}
	text, err = s.chunks(ctx, f, digest, text, most)
	err = errors.Join(err, f.Close())
	if sum := sha256.Sum256(text); err == nil && digest != "sha256:"+hex.EncodeToString(sum[:]) {
		_ = os.Remove(file) // what was there before, or what came, is of another part
	}
	return text, err
}

// chunks asks for what comes after text, and writes it to f.
func (s *originSource) chunks(ctx context.Context, f *os.File, digest string, text []byte, most int64) ([]byte, error) {
	if _, err := f.Seek(int64(len(text)), io.SeekStart); err != nil {
		return nil, err
	}
	for {
		var reply wire.BlobReply
		if err := s.ask(ctx, wire.VerbBlob, &wire.BlobRequest{Digest: digest, Offset: int64(len(text))}, &reply); err != nil {
			return nil, err
		}
		text = append(text, reply.Data...)
		if reply.Size > most || int64(len(text)) > reply.Size {
			return nil, fmt.Errorf("fetch %s: %w: more than %d bytes", digest, release.ErrTampered, min(reply.Size, most))
		}
		if _, err := f.Write(reply.Data); err != nil {
			return nil, fmt.Errorf("keep what is fetched: %w", err)
		}
		if int64(len(text)) == reply.Size {
			return text, nil
		}
		if len(reply.Data) == 0 {
			return nil, fmt.Errorf("fetch %s: %w: it ends at %d of %d bytes", digest, release.ErrTruncated, len(text), reply.Size)
		}
	}
}

// forget removes the parts that have begun to arrive.
func (s *originSource) forget() {
	_ = os.RemoveAll(s.parts) // what stays costs space, and is checked when it is used
}

func (s *originSource) ask(ctx context.Context, verb string, req, reply wire.Message) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.origin.Ask(ctx, verb, req, reply)
	if errors.Is(err, host.ErrNotFound) {
		return fmt.Errorf("%w: %w", release.ErrNotFound, err)
	}
	return err
}
