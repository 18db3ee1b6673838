package objstore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ToReplace is Get of an object that WriteOver is going to replace, whatever it has: the body of one that is missing,
// or does not match its checksum, is nil.
func ToReplace(ctx context.Context, s Store, key string) (body []byte, version Version, err error) {
	body, version, err = s.Get(ctx, key)
	switch {
	case failure.Is(err, failure.NotFound) && failure.HintOf(err) == "": // with one, it is about the storage
		return nil, "", nil
	case failure.Is(err, failure.Corrupt): // then Get returns no version
		objects, err := s.List(ctx, key)
		if err != nil {
			return nil, "", err
		}
		version = ""
		for _, o := range objects {
			if o.Key == key {
				version = o.Version
			}
		}
		return nil, version, nil
	}
	return body, version, err
}

// WriteOver writes an object whose version is the one of ToReplace; any other is a Conflict.
func WriteOver(ctx context.Context, s Store, key string, body []byte, old Version) error {
	var err error
	if old == "" {
		_, err = s.Create(ctx, key, body)
	} else {
		_, err = s.Replace(ctx, key, body, old)
	}
	return err
}
