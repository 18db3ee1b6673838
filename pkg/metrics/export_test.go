package metrics

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/outbound"
)

// PushQuickly is Push with shorter waits.
func PushQuickly(ctx context.Context, rawURL, instance string, s *Set) error {
	return pushWithin(ctx, rawURL, instance, s, outbound.Limits{Total: 20 * time.Second, Answer: 10 * time.Second, Wait: time.Millisecond})
}
