package resolve

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// ProgressFile keeps progress in one object in the storage, as compressed JSON. It is safe for concurrent use.
type ProgressFile struct {
	store objstore.Store
	key   string

	mu   sync.Mutex
	read objstore.Version // last read or written here; "" if none
}

// NewProgressFile keeps the progress of resolving the cluster to the backup. Runs that resume each other use the same
// name and backup; the progress itself identifies the cluster of that name.
func NewProgressFile(store objstore.Store, name cluster.Name, backup cluster.BackupID) *ProgressFile {
	return &ProgressFile{store: store, key: manifest.ResolveKey(name, backup)}
}

// Load reads the object; it returns Corrupt if that cannot be decoded.
func (f *ProgressFile) Load(ctx context.Context) (Progress, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, version, err := f.get(ctx)
	if failure.Is(err, failure.NotFound) {
		f.read = ""
		return Progress{}, false, nil
	}
	if err != nil {
		return Progress{}, false, err
	}
	f.read = version
	return p, true, nil
}

func (f *ProgressFile) get(ctx context.Context) (Progress, objstore.Version, error) {
	body, version, err := f.store.Get(ctx, f.key)
	if err != nil {
		return Progress{}, "", failure.Annotate(err, "read progress", f.key)
	}
	p, err := decodeProgress(body)
	return p, version, failure.Wrap(err, failure.Corrupt, "decode progress", f.key)
}

// Save writes the object unless it was written elsewhere since it was last read or written here. A write of this run
// whose answer was lost counts as written here.
func (f *ProgressFile) Save(ctx context.Context, p Progress) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := encodeProgress(p)
	if err != nil {
		return failure.Wrap(err, failure.Unknown, "encode progress", f.key)
	}
	err = f.put(ctx, body)
	if !failure.Is(err, failure.Conflict) {
		return err
	}
	there, version, readErr := f.get(ctx)
	if failure.Is(readErr, failure.NotFound) {
		return failure.New(failure.Conflict, "write progress", f.key, "another run has ended it: %w", err).
			WithHint("make sure that no other restore of the cluster runs")
	}
	if readErr != nil {
		return readErr
	}
	if there.Run != p.Run {
		return failure.New(failure.Conflict, "write progress", f.key, "run %s has taken over: %w", there.Run, err).
			WithHint("make sure that no other restore of the cluster runs")
	}
	f.read = version
	return f.put(ctx, body)
}

func (f *ProgressFile) put(ctx context.Context, body []byte) error {
	var version objstore.Version
	var err error
	if f.read == "" {
		version, err = f.store.Create(ctx, f.key, body)
	} else {
		version, err = f.store.Replace(ctx, f.key, body, f.read)
	}
	if err != nil {
		return failure.Annotate(err, "write progress", f.key)
	}
	f.read = version
	return nil
}

// Clear deletes the object.
func (f *ProgressFile) Clear(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.store.Delete(ctx, f.key); err != nil {
		return failure.Annotate(err, "remove progress", f.key)
	}
	f.read = ""
	return nil
}

// encodeProgress compresses, as the keys of a table's regions have common prefixes.
func encodeProgress(p Progress) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func decodeProgress(body []byte) (p Progress, err error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return Progress{}, err
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return Progress{}, err
	}
	return p, json.Unmarshal(plain, &p)
}
