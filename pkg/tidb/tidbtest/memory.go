package tidbtest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
)

// Memory is a Source in memory: a cluster's keys, with all of their versions. The zero value has none.
type Memory struct {
	mu       sync.Mutex
	ts       uint64
	versions []Change // by ts, from 1 on
}

// Write makes a version.
func (m *Memory) Write(c Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ts++
	m.versions = append(m.versions, c)
}

// Now implements Source.
func (m *Memory) Now(context.Context) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ts, nil
}

// Scan implements Source.
func (m *Memory) Scan(_ context.Context, ts uint64, prefix []byte, visit func(key, value []byte) error) error {
	m.mu.Lock()
	keys := map[string][]byte{}
	for _, c := range m.versions[:ts] {
		maps.Copy(keys, c)
	}
	m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if keys[key] == nil || !bytes.HasPrefix([]byte(key), prefix) {
			continue
		}
		if err := visit([]byte(key), keys[key]); err != nil {
			return err
		}
	}
	return nil
}
