// Package backup writes and reads backups of an origin's files. A backup is a tar
// compressed by gzip whose first entry identifies it.
package backup

import (
	"archive/tar"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mark is the name of the first entry, and format its content.
const (
	mark   = "PARTNER-EDGE-BACKUP"
	format = "1\n"
)

// ErrNoArchive is the error of an input that is no backup or is cut short.
var ErrNoArchive = errors.New("this is no whole backup of an origin")

// Writer writes a backup, which is complete once Close has returned.
type Writer struct {
	ctx  context.Context // of reading the files
	gzip *gzip.Writer
	tar  *tar.Writer
}

// NewWriter starts a backup in w. Once ctx has ended, no file can be added.
func NewWriter(ctx context.Context, w io.Writer) (*Writer, error) {
	a := &Writer{ctx: ctx, gzip: gzip.NewWriter(w)}
	a.tar = tar.NewWriter(a.gzip)
	header := &tar.Header{Name: mark, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(format)), ModTime: time.Now()}
	if err := a.tar.WriteHeader(header); err != nil {
		return nil, err
	}
	_, err := io.WriteString(a.tar, format)
	return a, err
}

// File adds the file at from under a slash-separated name.
func (a *Writer) File(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.CopyN(a.tar, Reader(a.ctx, f), info.Size()); err != nil { // a log may grow meanwhile
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// Reader returns what reads from a file until ctx ends.
func Reader(ctx context.Context, file io.Reader) io.Reader { return reader{ctx, file} }

type reader struct {
	ctx  context.Context
	file io.Reader
}

func (r reader) Read(into []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.file.Read(into)
}

// Walk calls fn for each file below dir with its slash-separated name there and its path. A
// symbolic link counts as what it leads to, dir as well. Left out are names that begin with a
// dot, which are of files that are being written, and what is neither a file nor a directory.
func Walk(dir string, fn func(name, from string) error) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return walk(dir, "", []fs.FileInfo{info}, fn)
}

// walk is Walk of a directory below. above has the directories on the way to it, and itself.
func walk(dir, name string, above []fs.FileInfo, fn func(name, from string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		from, named := filepath.Join(dir, entry.Name()), path.Join(name, entry.Name())
		info, err := os.Stat(from)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has just gone, or is a link to nothing
			continue
		case err != nil:
		case info.Mode().IsRegular():
			err = fn(named, from)
		case info.IsDir() && !slices.ContainsFunc(above, func(one fs.FileInfo) bool { return os.SameFile(one, info) }): // else a link to above
			err = walk(from, named, append(slices.Clip(above), info), fn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Is reports whether a file is a backup, or the beginning of one.
func Is(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil { // of anything else
		return false, nil
	}
	header, err := tar.NewReader(unzipped).Next()
	return err == nil && header.Name == mark, nil
}

// Close completes the backup.
func (a *Writer) Close() error {
	return errors.Join(a.tar.Close(), a.gzip.Close())
}

// Read writes the files of a backup to dir, a directory that has none of them. If it
// fails, it may have written some.
func Read(r io.Reader, dir string) (err error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	root, err := os.OpenRoot(dir) // no name leads out of it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	all := tar.NewReader(unzipped)
	for n := 0; ; n++ {
		header, err := all.Next()
		if err == io.EOF && n > 0 {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoArchive, err)
		}
		if n == 0 {
			if err := checkMark(header, all); err != nil {
				return err
			}
			continue
		}
		if header.Typeflag != tar.TypeReg || !fs.ValidPath(header.Name) {
			return fmt.Errorf("%w: entry %q", ErrNoArchive, header.Name)
		}
		if err := write(root, header, all); err != nil {
			return err
		}
	}
	// The gzip, with its checksum, ends after the tar.
	if _, err := io.Copy(io.Discard, unzipped); err != nil {
		return fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	return nil
}

func checkMark(header *tar.Header, content io.Reader) error {
	if header.Name != mark {
		return ErrNoArchive
	}
	text, err := io.ReadAll(io.LimitReader(content, 64))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	if string(text) != format {
		return fmt.Errorf("%w: of format %q, not %q", ErrNoArchive, text, format)
	}
	return nil
}

func write(root *os.Root, header *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(header.Name)), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(filepath.FromSlash(header.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fs.FileMode(header.Mode).Perm()&0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	var corrupt flate.CorruptInputError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		err = fmt.Errorf("%w: %w", ErrNoArchive, err)
	}
	return errors.Join(err, f.Sync(), f.Close())
}
