package ebs

import (
	"context"
	"sync"
)

// deleters is how many deletes are under way at a time: what EC2's bucket gives at once.
const deleters = 100

// DeleteEach deletes many resources at the same time, as fast as the pacing of remove allows, and returns
// the error of each that is not proven gone; an empty map means that all are. done is told of each that is gone,
// never at the same time; it may be nil. One failure does not stop the others; the end of ctx does, and what
// was not tried has ctx's error.
func DeleteEach[ID ~string](ctx context.Context, ids []ID, remove func(context.Context, ID) error, done func(ID)) map[ID]error {
	var (
		mu   sync.Mutex // guards left and the calls of done
		left = map[ID]error{}
		work = make(chan ID)
		wg   sync.WaitGroup
	)
	for range min(deleters, len(ids)) {
		wg.Go(func() {
			for id := range work {
				err := ctx.Err()
				if err == nil {
					err = remove(ctx, id)
				}
				mu.Lock()
				if err != nil {
					left[id] = err
				} else if done != nil {
					done(id)
				}
				mu.Unlock()
			}
		})
	}
	for _, id := range ids {
		work <- id
	}
	close(work)
	wg.Wait()
	return left
}
