package ebs

import (
	"context"
	"sync"

	"github.com/tisnap/tisnap/pkg/parallel"
)

// deletesAtOnce bounds the concurrent deletes: the burst of EC2's bucket.
const deletesAtOnce = 100

// DeleteEach deletes many resources concurrently, as fast as remove's pacing allows, and returns the error of each that
// is not proven gone; an empty map means that all are. done, if not nil, is called for each that is gone, never
// concurrently. One failure does not stop the others; the end of ctx does, and untried resources get ctx's error.
func DeleteEach[ID ~string](
	ctx context.Context, ids []ID, remove func(context.Context, ID) error, done func(ID),
) map[ID]error {
	var mu sync.Mutex // guards left and the calls of done
	left := make(map[ID]error, len(ids))
	for _, id := range ids {
		left[id] = nil
	}
	ended := parallel.Each(ctx, deletesAtOnce, ids, func(ctx context.Context, _ int, id ID) error {
		err := remove(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		if left[id] = err; err == nil {
			delete(left, id)
			if done != nil {
				done(id)
			}
		}
		return nil
	})
	for id, err := range left {
		if err == nil { // not tried, or remove panicked
			left[id] = ended
		}
	}
	return left
}
