package pdtest

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"
)

const ttlPrefix = "/config/ttl/"

// ttlItem is an override in etcd under a lease.
type ttlItem struct {
	value   string
	expires time.Time
	lease   int64
}

// TTLConfigs are the overrides in force, by item.
func (s *Server) TTLConfigs() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := map[string]string{}
	for item, t := range s.ttlLocked() {
		items[item] = t.value
	}
	return items
}

func (s *Server) ttlLocked() map[string]ttlItem {
	for item, t := range s.disk.ttl {
		if !s.now().Before(t.expires) {
			delete(s.disk.ttl, item)
		}
	}
	return s.disk.ttl
}

// setTTLLocked overrides or, for a ttl of 0, drops items. It returns PD's refusal, or "".
func (s *Server) setTTLLocked(items map[string]any, ttl time.Duration) string {
	for item := range items {
		if !slices.Contains(ttlItems(), item) {
			return "unsupported ttl config " + item
		}
	}
	for _, item := range sortedKeys(items) {
		if ttl <= 0 {
			delete(s.disk.ttl, item)
			continue
		}
		// Each item has a lease of its own, as in PD.
		s.disk.lastLease += 3
		s.disk.ttl[item] = ttlItem{value: fmt.Sprint(items[item]), expires: s.now().Add(ttl), lease: s.disk.lastLease}
	}
	return ""
}

// setConfigLocked changes the base config. It returns PD's refusal, or "".
func (s *Server) setConfigLocked(items map[string]any) string {
	for _, item := range sortedKeys(items) {
		if _, found := s.ttlLocked()[item]; found {
			return "need to clean up TTL first for " + item
		}
		if _, found := s.disk.config[item]; !found {
			return "config item " + item + " not found"
		}
	}
	for item, value := range items {
		s.disk.config[item] = value
	}
	return ""
}

// configLocked is the value in force: the override, else the base.
func (s *Server) configLocked(item string) string {
	if t, found := s.ttlLocked()[item]; found {
		return t.value
	}
	return fmt.Sprint(s.disk.config[item])
}

func (s *Server) durationConfigLocked(item string) time.Duration {
	d, err := time.ParseDuration(s.configLocked(item))
	if err != nil {
		return 0
	}
	return d
}

func (s *Server) numberConfigLocked(item string) float64 {
	n, err := strconv.ParseFloat(s.configLocked(item), 64)
	if err != nil {
		return 0
	}
	return n
}

// etcdPair is a key of PD's etcd.
type etcdPair struct {
	key, value string
	lease      int64
	revision   int64
}

// etcdLocked lists the keys in [start, end); an empty end is the key alone, "\x00" all from start on.
func (s *Server) etcdLocked(start, end []byte) []etcdPair {
	all := make([]etcdPair, 0, len(s.disk.ttl)+len(s.disk.kv))
	for item, t := range s.ttlLocked() {
		all = append(all, etcdPair{key: ttlPrefix + item, value: t.value, lease: t.lease, revision: 2})
	}
	for key, value := range s.disk.kv {
		all = append(all, etcdPair{key: key, value: value.text, revision: value.revision})
	}
	all = slices.DeleteFunc(all, func(p etcdPair) bool {
		switch {
		case len(end) == 0:
			return p.key != string(start)
		case bytes.Equal(end, []byte{0}):
			return p.key < string(start)
		}
		return p.key < string(start) || p.key >= string(end)
	})
	sort.Slice(all, func(i, j int) bool { return all[i].key < all[j].key })
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
