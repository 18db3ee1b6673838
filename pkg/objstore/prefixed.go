package objstore

import (
	"context"
	"strings"
)

// prefixed is a store below a folder of another.
type prefixed struct {
	inner  Store
	prefix string // ends in '/'
}

// Prefixed returns the part of store below prefix, a key that is a folder; a final '/' does not matter.
// An empty prefix is store itself.
func Prefixed(store Store, prefix string) Store {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return store
	}
	return prefixed{inner: store, prefix: prefix + "/"}
}

func (p prefixed) Create(ctx context.Context, key string, body []byte) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return p.inner.Create(ctx, p.prefix+key, body)
}

func (p prefixed) Replace(ctx context.Context, key string, body []byte, old Version) (Version, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	return p.inner.Replace(ctx, p.prefix+key, body, old)
}

func (p prefixed) Get(ctx context.Context, key string) ([]byte, Version, error) {
	if err := CheckKey(key); err != nil {
		return nil, "", err
	}
	return p.inner.Get(ctx, p.prefix+key)
}

func (p prefixed) List(ctx context.Context, prefix string) ([]Object, error) {
	return p.ListAfter(ctx, prefix, "")
}

func (p prefixed) ListAfter(ctx context.Context, prefix, after string) ([]Object, error) {
	objects, err := p.inner.ListAfter(ctx, p.prefix+prefix, p.prefix+after)
	for i := range objects {
		objects[i].Key = strings.TrimPrefix(objects[i].Key, p.prefix)
	}
	return objects, err
}

func (p prefixed) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return p.inner.Delete(ctx, p.prefix+key)
}

func (p prefixed) DeleteVersion(ctx context.Context, key string, old Version) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return p.inner.DeleteVersion(ctx, p.prefix+key, old)
}

func (p prefixed) URL() string {
	return strings.TrimSuffix(p.inner.URL(), "/") + "/" + strings.TrimSuffix(p.prefix, "/")
}
