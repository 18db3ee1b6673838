package brcompat

import (
	"context"
	"os"
	"time"
)

// parentPoll is how often a process checks that its parent is alive.
const parentPoll = time.Second

// watchParent returns a channel that it closes when the parent process has exited: no one reads this process's output
// any more, or would stop it. It polls, because the kernel's notification (PR_SET_PDEATHSIG) is about the parent
// thread, which in a Go program may end at any time. If the parent is the pod's first process, or not visible, the
// channel stays open. ctx ends the watch.
func watchParent(ctx context.Context, parent func() int) <-chan struct{} {
	gone := make(chan struct{})
	was := parent()
	if was <= 1 {
		return gone
	}
	go func() {
		ticker := time.NewTicker(parentPoll)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if parent() != was {
					close(gone)
					return
				}
			}
		}
	}()
	return gone
}

// parentEnded stands in for the signal that the dead parent cannot send.
type parentEnded struct{}

var _ os.Signal = parentEnded{}

func (parentEnded) Signal()        {}
func (parentEnded) String() string { return "the process that started br has exited" }
