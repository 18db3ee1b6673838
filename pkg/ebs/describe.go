package ebs

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
)

// EC2 takes at most 200 values in a filter, and answers id lists of that length in one go. Most calls have pages
// of up to 1000, some smaller ones.
const (
	describeBatch     = 200
	describePage      = 1000
	describeSmallPage = 500 // of modifications
	fastRestorePage   = 200
)

// describeAll looks up ids in batches. EC2 fails the whole list for one unknown id, so such a batch is repeated by
// filter, which omits unknown ids.
func describeAll[T any](
	ctx context.Context, ids []string, byID, byFilter func(context.Context, []string) ([]T, error),
) ([]T, error) {
	var all []T
	for batch := range slices.Chunk(unique(ids), describeBatch) {
		found, err := byID(ctx, batch)
		if failure.Is(err, failure.NotFound) {
			found, err = byFilter(ctx, batch)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// pages reads a paginated answer to its end. next is nil after the last page.
func pages[T any](
	ctx context.Context, page func(ctx context.Context, token *string) (items []T, next *string, err error),
) ([]T, error) {
	var (
		all   []T
		token *string
	)
	for {
		items, next, err := page(ctx, token)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == nil || *next == "" {
			return all, nil
		}
		token = next
	}
}

// unique sorts ids and leaves each in once.
func unique[T ~string](ids []T) []string {
	out := texts(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
