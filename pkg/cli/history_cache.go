package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// historyCache caches a storage's runs in the user's cache folder ($XDG_CACHE_HOME/tisnap). A cache that cannot be read
// or written only costs time, so failures are silent. A custom endpoint has no cache, as the same URL may be another
// storage tomorrow.
type historyCache struct{ url, endpoint string }

func (g *globalFlags) historyCache(store objstore.Store) historyCache {
	return historyCache{url: store.URL(), endpoint: cmp.Or(g.endpoint, os.Getenv("AWS_ENDPOINT_URL"))}
}

func (c historyCache) path() (string, error) { return c.file("runs-", ".json.gz") }

// file returns the path of a cache file for the storage.
func (c historyCache) file(prefix, suffix string) (string, error) {
	if c.endpoint != "" && strings.HasPrefix(c.url, "s3:") {
		return "", os.ErrNotExist
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(c.url))
	return filepath.Join(folder, "tisnap", prefix+hex.EncodeToString(sum[:8])+suffix), nil
}

func (c historyCache) load(r *history.Reader) {
	path, err := c.path()
	if err != nil {
		return
	}
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	_ = r.Load(file) // best effort: the storage is read instead
}

// save replaces the file atomically, so that concurrent commands leave an intact one.
func (c historyCache) save(r *history.Reader) {
	path, err := c.path()
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(path), "runs-*.tmp")
	if err != nil {
		return
	}
	err = r.Save(file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
}
