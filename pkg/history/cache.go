package history

import (
	"compress/gzip"
	"encoding/json"
	"io"

	"github.com/tisnap/tisnap/pkg/failure"
)

// cacheVersion changes with the meaning of Run's fields: an older cache is of no use then.
const cacheVersion = 2

// cached is what Save writes.
type cached struct {
	Version int    `json:"version"`
	Storage string `json:"storage"`
	Runs    []Run  `json:"runs"`
}

// Save writes what is known of the runs, for a later process.
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

// Load takes over what Save wrote. What is not of this storage or of another version is ignored: the storage is what
// counts, and each run is used only if its object still has the version.
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
