package objstore

import (
	"context"
	"time"
)

// Version identifies one content of one key (an ETag on S3). It is opaque.
type Version string

// Object is an entry of a listing.
type Object struct {
	Key      string // below the store's prefix
	Size     int64
	Modified time.Time
	Version  Version
}

// Store is object storage with conditional writes. Keys are relative to the store's prefix and use '/'.
// All methods are safe for concurrent use; a write that returned is visible to every later read and list.
// After an error of kind Unknown or Limited a write may have happened: read before repeating.
type Store interface {
	// Create writes a new object. An existing one is a Conflict and stays unchanged.
	Create(ctx context.Context, key string, body []byte) (Version, error)
	// Replace overwrites the version old; any other current version, or none, is a Conflict.
	Replace(ctx context.Context, key string, body []byte, old Version) (Version, error)
	// Get returns the whole object. A missing one is NotFound; a body that does not match its checksum is Corrupt.
	Get(ctx context.Context, key string) ([]byte, Version, error)
	// GetRange fills into with the bytes of an object from offset on, without a check of their content. An object that
	// ends before is Corrupt, a missing one NotFound. After an error, into has any content.
	GetRange(ctx context.Context, key string, offset int64, into []byte) error
	// List returns all objects whose key starts with prefix, in key order, across pages.
	List(ctx context.Context, prefix string) ([]Object, error)
	// ListAfter is List of the keys that sort after after, and reads only the pages that it needs. after need not be an
	// existing key; "" lists all.
	ListAfter(ctx context.Context, prefix, after string) ([]Object, error)
	// Delete removes an object. Deleting a missing one succeeds.
	Delete(ctx context.Context, key string) error
	// DeleteVersion is Delete of the version old: any other current version is a Conflict and is kept. An S3 without
	// conditional deletes, which Amazon's has, deletes any version.
	DeleteVersion(ctx context.Context, key string, old Version) error
	// URL returns the store's URL for messages; it never has a secret.
	URL() string
}
