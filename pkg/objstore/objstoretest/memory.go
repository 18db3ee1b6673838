package objstoretest

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3's ETag is an MD5
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Memory is an objstore.Store in memory. As on S3, the same content has the same version. Faults struck
// Before and After are errors of kind Unknown (Limited for the code SlowDown).
type Memory struct {
	faults *fault.Plan

	mu       sync.Mutex
	objects  map[string]object
	mutating []string
}

type object struct {
	body     []byte
	etag     string // hexadecimal, without quotes
	modified time.Time
}

// NewMemory makes an empty store. A nil plan has no faults.
func NewMemory(faults *fault.Plan) *Memory {
	return &Memory{faults: faults, objects: map[string]object{}}
}

// MutatingCalls lists the calls so far that were asked to change something, as "PutObject key".
func (m *Memory) MutatingCalls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mutating)
}

// Create implements objstore.Store.
func (m *Memory) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	return m.put(ctx, "create object", key, body, func(_ object, exists bool) bool { return !exists })
}

// Replace implements objstore.Store.
func (m *Memory) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	return m.put(ctx, "replace object", key, body, func(current object, exists bool) bool {
		return exists && current.etag == string(old)
	})
}

func (m *Memory) put(ctx context.Context, op, key string, body []byte, admit func(object, bool) bool) (objstore.Version, error) {
	if err := objstore.CheckKey(key); err != nil {
		return "", err
	}
	var version objstore.Version
	err := m.call(ctx, "PutObject", op, key, true, func() error {
		current, exists := m.objects[key]
		if !admit(current, exists) {
			return failure.New(failure.Conflict, op, key, "the object exists in another version")
		}
		o := newObject(body)
		m.objects[key], version = o, objstore.Version(o.etag)
		return nil
	})
	if err != nil {
		return "", err
	}
	return version, nil
}

// Get implements objstore.Store.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if err := objstore.CheckKey(key); err != nil {
		return nil, "", err
	}
	var o object
	err := m.call(ctx, "GetObject", "get object", key, false, func() error {
		var ok bool
		if o, ok = m.objects[key]; !ok {
			return failure.New(failure.NotFound, "get object", key, "no such key")
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return bytes.Clone(o.body), objstore.Version(o.etag), nil
}

// GetRange implements objstore.Store.
func (m *Memory) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	body, _, err := m.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case offset < 0 || len(into) == 0:
		return failure.New(failure.Usage, "get object", key, "no range")
	case int64(len(body)-len(into)) < offset:
		return failure.New(failure.Corrupt, "get object", key, "it is shorter")
	}
	copy(into, body[offset:])
	return nil
}

// List implements objstore.Store.
func (m *Memory) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	return m.ListAfter(ctx, prefix, "")
}

// ListAfter implements objstore.Store.
func (m *Memory) ListAfter(ctx context.Context, prefix, after string) ([]objstore.Object, error) {
	var found []objstore.Object
	err := m.call(ctx, "ListObjectsV2", "list objects", prefix, false, func() error {
		for key, o := range m.objects {
			if strings.HasPrefix(key, prefix) && key > after {
				found = append(found, objstore.Object{
					Key: key, Size: int64(len(o.body)), Modified: o.modified, Version: objstore.Version(o.etag),
				})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b objstore.Object) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// Delete implements objstore.Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	return m.call(ctx, "DeleteObject", "delete object", key, true, func() error {
		delete(m.objects, key)
		return nil
	})
}

// DeleteVersion implements objstore.Store.
func (m *Memory) DeleteVersion(ctx context.Context, key string, old objstore.Version) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if old == "" {
		return failure.New(failure.Usage, "delete object", key, "no version given")
	}
	return m.call(ctx, "DeleteObject", "delete object", key, true, func() error {
		if current, exists := m.objects[key]; exists && current.etag != string(old) {
			return failure.New(failure.Conflict, "delete object", key, "the object exists in another version")
		}
		delete(m.objects, key)
		return nil
	})
}

// URL implements objstore.Store.
func (m *Memory) URL() string { return "memory://" }

func (m *Memory) call(ctx context.Context, point, op, key string, mutates bool, do func() error) error {
	strike := m.faults.At("s3." + point)
	if err := strike.Wait(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if strike != nil && strike.Position == fault.Before {
		return struck(strike, op, key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if mutates {
		m.mutating = append(m.mutating, point+" "+key)
	}
	if err := do(); err != nil {
		return err
	}
	if strike != nil && strike.Position == fault.After {
		return struck(strike, op, key)
	}
	return nil
}

func struck(s *fault.Strike, op, key string) error {
	kind := failure.Unknown
	switch s.Code {
	case "SlowDown":
		kind = failure.Limited
	case "AccessDenied":
		kind = failure.Denied
	case "ConditionalRequestConflict":
		kind = failure.Conflict
	}
	return failure.New(kind, op, key, "injected fault %q (%s)", s.Code, s.Position)
}

func newObject(body []byte) object {
	sum := md5.Sum(body) //nolint:gosec // S3's ETag is an MD5
	return object{body: bytes.Clone(body), etag: hex.EncodeToString(sum[:]), modified: time.Now().UTC()}
}
