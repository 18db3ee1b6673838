package hold

import (
	"errors"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ErrBroken is in the chain of every error of a broken hold.
var ErrBroken = errors.New("the hold broke")

// ErrBudget is in the chain too if the hold exceeded its budget.
var ErrBudget = errors.New("the hold exceeded its budget")

// BrokenError is why a hold broke and when that was noticed.
type BrokenError struct {
	At     time.Time
	After  time.Duration // since the first pause
	Reason error         // names the store or the PD item
}

// Error prints the time and the reason.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%v at %s, %s after the first pause: %v",
		ErrBroken, e.At.UTC().Format("15:04:05.000Z"), e.After.Round(time.Millisecond), e.Reason)
}

// Unwrap returns ErrBroken and the reason.
func (e *BrokenError) Unwrap() []error { return []error{ErrBroken, e.Reason} }

// breakWith records the first reason why the hold broke, and cancels every Context.
func (h *Hold) breakWith(reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.broken != nil || h.released {
		return
	}
	broken := &BrokenError{At: time.Now(), Reason: reason}
	if !h.started.IsZero() {
		broken.After = broken.At.Sub(h.started)
	}
	h.broken = &failure.Error{
		Op: "hold", Target: h.cfg.Cluster.String(), Kind: failure.KindOf(reason), Hint: failure.HintOf(reason),
		Err: broken,
	}
	close(h.lost)
	h.log.Sugar().Warnf("%v", h.broken)
}

// reason returns why the hold broke, or nil.
func (h *Hold) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}
