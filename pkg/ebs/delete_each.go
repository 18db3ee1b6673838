package ebs

import (
	"context"
	"sync"

	"github.com/tisnap/tisnap/pkg/parallel"
)

// deletesAtOnce is how many deletes are under way at a time: what EC2's bucket gives at once.
const deletesAtOnce = 100

// DeleteEach deletes many resources at the same time, as fast as the pacing of remove allows, and returns
// the error of each that is not proven gone; an empty map means that all are. done is called for each that is gone,
// never at the same time; it may be nil. One failure does not stop the others; the end of ctx does, and what
// was not tried has ctx's error.
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
