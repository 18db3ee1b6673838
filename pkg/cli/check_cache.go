package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/gc"
)

// checkResult is what `tisnap list --check` found. It stays valid: a deleted snapshot does not come back.
type checkResult struct {
	At   time.Time    `json:"at"`
	Gone []gc.Missing `json:"gone"`
}

// apply marks the backups as broken. A backup deleted and made again under the same name has different snapshots.
func (r *checkResult) apply(items []catalog.Entry) {
	for _, m := range r.Gone {
		for i := range items {
			if e := &items[i]; e.ID == m.Backup && e.State == catalog.StateSealed && e.CreatedAt.Before(r.At) {
				e.State = catalog.StateBroken
				e.Problem = fmt.Sprintf("%d of its snapshots are gone, so it cannot be restored: %v (checked at %s)",
					len(m.Snapshots), m.Snapshots, r.At.Format(time.RFC3339))
			}
		}
	}
}

// checkCache keeps a storage's last result beside the history cache, under the same rules.
type checkCache struct{ of historyCache }

func (c checkCache) path() (string, error) { return c.of.file("check-", ".json") }

// apply marks what the last check found, if there was one.
func (c checkCache) apply(items []catalog.Entry) {
	path, err := c.path()
	if err != nil {
		return
	}
	body, err := os.ReadFile(path)
	var r checkResult
	if err == nil && json.Unmarshal(body, &r) == nil {
		r.apply(items)
	}
}

// save replaces the result atomically.
func (c checkCache) save(r checkResult) {
	path, err := c.path()
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	body, err := json.Marshal(r)
	if err != nil {
		return
	}
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	if os.WriteFile(part, body, 0o600) != nil || os.Rename(part, path) != nil {
		_ = os.Remove(part) // best effort: it is only a cache file
	}
}
