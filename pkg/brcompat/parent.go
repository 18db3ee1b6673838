package brcompat

import (
	"context"
	"os"
	"time"
)

// parentPoll is how often a process looks whether its parent lives.
const parentPoll = time.Second

// watchParent closes the channel that it returns when the process that started this one has ended: nobody reads what
// this one says any more, or would end it. It polls, as the kernel's own notice (PR_SET_PDEATHSIG) is of the end of the
// thread that started the process, which in a Go program may end at any time. A process whose parent is the first one
// of its pod, or none that it can see, is watched by nobody: then the channel stays open. ctx ends the watch.
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

// parentEnded stands for the signal that nobody is left to send.
type parentEnded struct{}

var _ os.Signal = parentEnded{}

func (parentEnded) Signal()        {}
func (parentEnded) String() string { return "the process that started br has ended" }
