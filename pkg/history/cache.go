package history

import (
	"compress/gzip"
	"encoding/json"
	"io"

	"github.com/tisnap/tisnap/pkg/failure"
)

// cacheVersion changes with the meaning of Run's fields, which makes older caches useless.
const cacheVersion = 3

// cached is what Save writes.
type cached struct {
	Version int    `json:"version"`
	Storage string `json:"storage"`
	Runs    []Run  `json:"runs"`
}

// Save writes the known runs for a later process.
func (r *Reader) Save(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := cached{Version: cacheVersion, Storage: r.store.URL()}
	for _, run := range r.runs {
		c.Runs = append(c.Runs, run)
	}
	z := gzip.NewWriter(w)
	err := json.NewEncoder(z).Encode(c)
	if err == nil {
		err = z.Close()
	}
	return failure.Wrap(err, failure.Unknown, "write cache", c.Storage)
}

// Load reads what Save wrote. A cache of another storage or version is ignored: only the storage counts, and a cached
// run is used only if its object still has the same version.
func (r *Reader) Load(rd io.Reader) error {
	z, err := gzip.NewReader(rd)
	if err != nil {
		return failure.Wrap(err, failure.Corrupt, "read cache", r.store.URL())
	}
	var c cached
	if err := json.NewDecoder(z).Decode(&c); err != nil {
		return failure.Wrap(err, failure.Corrupt, "read cache", r.store.URL())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Version != cacheVersion || c.Storage != r.store.URL() {
		return nil
	}
	for _, run := range c.Runs {
		r.runs[run.Key] = run
	}
	return nil
}
