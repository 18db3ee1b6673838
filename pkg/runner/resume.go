package runner

import (
	"context"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Resumption is how a kind of run is resumed after its process died.
type Resumption struct {
	// Learn reads the run's journal before the first step; its error refuses the run. It may be nil.
	Learn func(h *phase.History, was *journal.About) error
	// Adopt, StartOver and Reset are as in phase.Resume.
	Adopt     func(ctx context.Context, s *phase.Scope, h *phase.History) error
	StartOver func(ctx context.Context, h *phase.History) (why string, err error)
	Reset     func() error
	// Abort undoes the run instead of resuming it, whatever the request; with Ended also one that has ended, for what
	// its own undo had to leave.
	Abort, Ended bool
	// Keeps is as in phase.Resume: a run that fails frees its lock and stays unfinished.
	Keeps bool
}

// resume returns the engine's configuration for it.
func (r *Runner) resume(book Book) *phase.Resume {
	how := book.Resume
	return &phase.Resume{
		Admit: journal.StepLock, Epoch: r.fence.Epoch, Abort: how.Abort, Ended: how.Ended,
		Keeps: how.Keeps, StartOver: how.StartOver,
		Same: func(h *phase.History) error { return r.same(h, book) },
		Adopt: func(ctx context.Context, s *phase.Scope, h *phase.History) error {
			if how.Adopt == nil {
				return nil
			}
			return how.Adopt(ctx, s, h)
		},
		Reset: func() error {
			r.restarted = true
			if how.Reset == nil {
				return nil
			}
			return how.Reset()
		},
	}
}

// same refuses a run that was begun in another storage, of which this is a copy, or with another request. What its
// earlier processes made carries that storage's tag, or none.
func (r *Runner) same(h *phase.History, book Book) error {
	was, err := journal.ReadAbout(r.cfg.Run, h.Records[0])
	if err != nil {
		return err
	}
	if err := r.storage.CheckRun(string(r.cfg.Run), was.StorageID, was.Storage); err != nil {
		return err
	}
	r.storageID = was.StorageID
	if book.Resume.Learn != nil {
		if err := book.Resume.Learn(h, &was); err != nil {
			return err
		}
	}
	r.earlier, r.outcome.Expected = h, journal.ReadFacts(h.Records).Expected
	if book.Resume.Abort {
		return nil
	}
	about := r.about(book.About)
	return was.SameRequest(r.cfg.Run, &about)
}
