package notify

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/outbound"
)

// SendQuickly is Send with shorter waits.
func SendQuickly(ctx context.Context, rawURL string, s Summary, total time.Duration) error {
	return send(ctx, rawURL, s, outbound.Limits{Total: total, Answer: total / 2, Wait: time.Millisecond})
}
