package history

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// maxSmallBytes is the largest cached object: a seal has some 600 bytes.
const maxSmallBytes = 4 << 10

// smallObjects is a storage that reads each version of a claim or seal once, and answers List from the listing given to
// begin. Everything else passes through.
type smallObjects struct {
	objstore.Store

	mu     sync.Mutex
	listed []objstore.Object
	wanted map[string]objstore.Version
	bodies map[string]small
	read   int
}

type small struct {
	body    []byte
	version objstore.Version
}

func newSmallObjects(store objstore.Store) *smallObjects {
	return &smallObjects{Store: store, bodies: map[string]small{}}
}

// begin sets the listing, and drops what is not in it from the cache. It returns how many of its objects are cached.
func (s *smallObjects) begin(objects []objstore.Object) (known int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.wanted, s.read = objects, map[string]objstore.Version{}, 0
	for _, o := range objects {
		s.wanted[o.Key] = o.Version
	}
	for key, b := range s.bodies {
		if s.wanted[key] != b.version {
			delete(s.bodies, key)
		}
	}
	return len(s.bodies)
}

func (s *smallObjects) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

// List returns the objects of begin's listing below the prefix.
func (s *smallObjects) List(_ context.Context, prefix string) ([]objstore.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []objstore.Object
	for _, o := range s.listed {
		if strings.HasPrefix(o.Key, prefix) {
			found = append(found, o)
		}
	}
	return found, nil
}

// Get returns a claim or seal from the cache if it has the listed version.
func (s *smallObjects) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	s.mu.Lock()
	known, ok := s.bodies[key]
	s.mu.Unlock()
	if ok {
		return bytes.Clone(known.body), known.version, nil
	}
	body, version, err := s.Store.Get(ctx, key)
	_, file, isOfBackup := manifest.SplitBackupKey(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read++
	if err == nil && isOfBackup && (file == manifest.SealFile || file == manifest.ClaimFile) &&
		len(body) <= maxSmallBytes {
		s.bodies[key] = small{body: bytes.Clone(body), version: version}
	}
	return body, version, err
}
