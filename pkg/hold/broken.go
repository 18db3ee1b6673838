package hold

import (
	"errors"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ErrBroken is in the chain of every error that says that a hold did not hold.
var ErrBroken = errors.New("the hold broke")

// ErrBudget is in the chain as well if it was released because its budget was used up.
var ErrBudget = errors.New("the budget of the hold is used up")

// BrokenError says why a hold did not hold, and when that was noticed.
type BrokenError struct {
	At     time.Time
	After  time.Duration // since the first pause
	Reason error         // names the store, or what of PD
}

// Error prints when, and the reason.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%v at %s, %s after the first pause: %v",
		ErrBroken, e.At.UTC().Format("15:04:05.000Z"), e.After.Round(time.Millisecond), e.Reason)
}

// Unwrap gives ErrBroken and the reason.
func (e *BrokenError) Unwrap() []error { return []error{ErrBroken, e.Reason} }

// breakWith notes the first reason why the hold does not hold, and ends every Context.
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

// reason is why the hold broke, or nil.
func (h *Hold) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}
