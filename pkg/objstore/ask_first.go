package objstore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// askFirst is a store whose writes a run's lock may refuse.
type askFirst struct{ Store }

// AskFirst lets the run's lock refuse each write to the store before it is sent; see package fenced. The lock's own
// object and the journal need the unwrapped store: through them runs learn of each other.
func AskFirst(store Store) Store { return askFirst{store} }

func (a askFirst) Create(ctx context.Context, key string, body []byte) (Version, error) {
	if err := fenced.Check(ctx); err != nil {
		return "", err
	}
	return a.Store.Create(ctx, key, body)
}

func (a askFirst) Replace(ctx context.Context, key string, body []byte, old Version) (Version, error) {
	if err := fenced.Check(ctx); err != nil {
		return "", err
	}
	return a.Store.Replace(ctx, key, body, old)
}

func (a askFirst) Delete(ctx context.Context, key string) error {
	if err := fenced.Check(ctx); err != nil {
		return err
	}
	return a.Store.Delete(ctx, key)
}

func (a askFirst) DeleteVersion(ctx context.Context, key string, old Version) error {
	if err := fenced.Check(ctx); err != nil {
		return err
	}
	return a.Store.DeleteVersion(ctx, key, old)
}
