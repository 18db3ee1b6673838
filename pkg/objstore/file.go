package objstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
)

// fileStore keeps objects as files below a folder. A version is the SHA-256 of the content, so that it survives a copy
// of the folder; that of a file above maxHashed is its size and time, so that a list of large ones need not read them.
// A key cannot be a folder of another key. Writers on this machine exclude each other by flock, which a file system
// shared between machines must support.
type fileStore struct {
	root string
}

// newFile does not touch the folder: the first write creates it.
func newFile(root string) *fileStore { return &fileStore{root: root} }

// URL implements Store.
func (f *fileStore) URL() string { return (&url.URL{Scheme: "file", Path: f.root}).String() }

// Create implements Store.
func (f *fileStore) Create(ctx context.Context, key string, body []byte) (Version, error) {
	return f.write(ctx, "create object", key, body, func(path string) error {
		if _, err := os.Lstat(path); err == nil {
			return failure.New(failure.Conflict, "", "", "the object exists")
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Replace implements Store.
func (f *fileStore) Replace(ctx context.Context, key string, body []byte, old Version) (Version, error) {
	return f.write(ctx, "replace object", key, body, func(path string) error {
		current, err := describe(path, key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return failure.New(failure.Conflict, "", "", "the object does not exist")
		case err != nil:
			return err
		case current.Version != old:
			return failure.New(failure.Conflict, "", "", "the object has another version")
		}
		return nil
	})
}

// write writes the body to a new file and renames it to the object. Readers see the old or the new content, even after
// a crash.
func (f *fileStore) write(
	ctx context.Context, op, key string, body []byte, admit func(path string) error,
) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	v, err := f.writeFile(ctx, f.path(key), body, admit)
	return v, explainFile(ctx, err, op, key)
}

func (f *fileStore) writeFile(
	ctx context.Context, path string, body []byte, admit func(path string) error,
) (Version, error) {
	if err := errors.Join(ctx.Err(), admit(path)); err != nil { // before the work; it is asked again
		return "", err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	temp := filepath.Join(folder, tempPrefix+rand.Text())
	if err := writeSynced(temp, body); err != nil {
		return "", errors.Join(err, removed(temp))
	}
	written, err := describe(temp, "")
	if err == nil {
		err = f.exclusively(ctx, func() error {
			if err := admit(path); err != nil {
				return err
			}
			return os.Rename(temp, path)
		})
	}
	if err != nil {
		return "", errors.Join(err, removed(temp))
	}
	return written.Version, syncFolder(folder)
}

// Get implements Store.
func (f *fileStore) Get(ctx context.Context, key string) ([]byte, Version, error) {
	if err := CheckKey(key); err != nil {
		return nil, "", err
	}
	if err := ctx.Err(); err != nil {
		return nil, "", explainFile(ctx, err, "get object", key)
	}
	path := f.path(key)
	body, info, err := readFile(path)
	if err != nil {
		return nil, "", explainFile(ctx, err, "get object", key)
	}
	return body, versionOf(info, body), nil
}

// readFile returns a file and what it is: of one file, even while another one takes its place.
func readFile(path string) (body []byte, info fs.FileInfo, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err = file.Stat(); err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, fs.ErrNotExist // a folder of keys is not a key
	}
	body = make([]byte, info.Size())
	_, err = io.ReadFull(file, body)
	return body, info, err
}

// GetRange implements Store.
func (f *fileStore) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	if err := errors.Join(CheckKey(key), checkRange(key, offset, int64(len(into)))); err != nil {
		return err
	}
	return explainFile(ctx, f.readRange(ctx, f.path(key), offset, into), "get object", key)
}

func (f *fileStore) readRange(ctx context.Context, path string, offset int64, into []byte) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fs.ErrNotExist // a folder of keys is not a key
	case info.Size() < offset+int64(len(into)):
		return endsBefore(path, offset+int64(len(into)))
	}
	_, err = file.ReadAt(into, offset)
	return err
}

// List implements Store. It reads the listed files up to maxHashed for their versions.
func (f *fileStore) List(ctx context.Context, prefix string) ([]Object, error) {
	return f.ListAfter(ctx, prefix, "")
}

// ListAfter implements Store.
func (f *fileStore) ListAfter(ctx context.Context, prefix, after string) ([]Object, error) {
	var objects []Object
	err := filepath.WalkDir(f.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // no folder yet, or removed meanwhile
			return nil
		case err != nil:
			return err
		case !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), tempPrefix):
			return nil
		}
		relative, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(relative)
		if ours := CheckKey(key) == nil; !ours || !strings.HasPrefix(key, prefix) || key <= after {
			return nil
		}
		o, err := describe(path, key)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		objects = append(objects, o)
		return err
	})
	if err != nil {
		return nil, explainFile(ctx, err, "list objects", f.URL()+"/"+prefix)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return objects, nil
}

// Delete implements Store. It keeps folders that become empty.
func (f *fileStore) Delete(ctx context.Context, key string) error {
	return f.remove(ctx, key, func(string) error { return nil })
}

// DeleteVersion implements Store. It keeps folders that become empty.
func (f *fileStore) DeleteVersion(ctx context.Context, key string, old Version) error {
	if old == "" {
		return failure.New(failure.Usage, "delete object", key, "no version given")
	}
	return f.remove(ctx, key, func(path string) error {
		current, err := describe(path, key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case current.Version != old:
			return failure.New(failure.Conflict, "", "", "the object has another version")
		}
		return nil
	})
}

// remove deletes the object unless admit returns an error. No writer can interfere in between.
func (f *fileStore) remove(ctx context.Context, key string, admit func(path string) error) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	path := f.path(key)
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil // a folder of keys is not a key
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := f.exclusively(ctx, func() error {
		if err := admit(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncFolder(filepath.Dir(path))
	})
	return explainFile(ctx, err, "delete object", key)
}

func (f *fileStore) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

func describe(path, key string) (Object, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Object{}, err
	}
	var body []byte
	if info.Size() <= maxHashed {
		if body, info, err = readFile(path); err != nil {
			return Object{}, err
		}
	}
	return Object{Key: key, Size: info.Size(), Modified: info.ModTime(), Version: versionOf(info, body)}, nil
}

// maxHashed is the size up to which a file's version is that of its content. What is larger, an archive's packs, is
// written once.
const maxHashed = 8 << 20

func versionOf(info fs.FileInfo, body []byte) Version {
	if info.Size() > maxHashed {
		return Version(fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano()))
	}
	sum := sha256.Sum256(body)
	return Version(hex.EncodeToString(sum[:]))
}
