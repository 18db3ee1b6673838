package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// learn finds out what earlier processes of the run turned off.
func (e *earlyApply) learn(old []earlyapply.Setting) {
	if e.old = old; len(old) > 0 {
		remainsEarly(e.remains, e.opts.Cluster, old)
	}
}

// skip omits stores that are permanently dead: one that comes back starts with its configured limit.
func (e *earlyApply) skip(s *phase.Scope, dead []cluster.StoreID) {
	e.old = slices.DeleteFunc(slices.Clone(e.old), func(was earlyapply.Setting) bool {
		gone := slices.Contains(dead, was.Store)
		if gone {
			s.Warn("early apply is not restored on store %s, which does not answer: a restart brings its "+
				"configured limit of %d", was.Store, was.Limit)
		}
		return gone
	})
}

// undo restores the settings, retrying until its deadline. Its error is of kind Held.
func (e *earlyApply) undo(ctx context.Context, s *phase.Scope) (err error) {
	_ = wait.Until(ctx, wait.Every(releaseInterval), func() (bool, error) { // err is the last try's
		err = e.putBack(ctx, s)
		return err == nil, err
	})
	return err
}

// putBack restores the stores' settings and records that. Its error is of kind Held.
func (e *earlyApply) putBack(ctx context.Context, s *phase.Scope) error {
	if len(e.old) == 0 {
		return nil
	}
	if _, err := putBack(ctx, e.pd, e.applier, e.opts.Cluster, e.old); err != nil {
		return err
	}
	s.Result(journal.ResultEarlyApplyBack, e.old)
	e.old = nil
	e.remains.Clear(phase.RemainsEarlyApply)
	return nil
}

// remainsEarly reports what stays off if the process ends now: it does not expire.
func remainsEarly(remains *phase.Remains, name cluster.Name, old []earlyapply.Setting) {
	var were []string
	for _, s := range old {
		were = append(were, fmt.Sprintf("%d on store %s", s.Limit, s.Store))
	}
	text := fmt.Sprintf("early apply of cluster %s stays off; raftstore.max-apply-unpersisted-log-limit was %s: "+
		"tisnap release %s --yes restores what a backup turned off, and so does a restart of the stores",
		name, strings.Join(were, ", "), name)
	remains.Set(phase.RemainsEarlyApply, func() string { return text })
}

// end restores the settings after the cut. What fails is retried once the backup is sealed.
func (e *earlyApply) end(ctx context.Context, s *phase.Scope) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackLimit)
	defer cancel()
	if err := e.putBack(ctx, s); err != nil {
		s.Warn("the cut is proven, but early apply could not be restored yet; finishing the "+
			"backup, then retrying: %v", err)
	}
}

// endLate restores what end could not.
func (e *earlyApply) endLate(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := context.WithTimeout(ctx, e.opts.Lease)
	defer cancel()
	return e.undo(ctx, s)
}

// notedPD lists the stores and keeps the record of their settings.
type notedPD interface {
	pd.Members
	pd.Notes
}

// putBack restores the stores' settings, removes them from PD's record, and lists those that it set. Its error is of
// kind Held: a store stays as it is until someone acts or restarts it.
func putBack(
	ctx context.Context, p notedPD, t tikv.EarlyApplier, name cluster.Name, old []earlyapply.Setting,
) (done []cluster.StoreID, err error) {
	if t == nil {
		err = failure.New(failure.Unready, "restore early apply", name.String(), "the status ports cannot be reached")
	} else {
		var stores []earlyapply.Store
		if stores, err = earlyStores(ctx, p, name); err == nil {
			done, err = earlyapply.PutBack(ctx, t, stores, old)
		}
		if err == nil {
			err = earlyapply.Strike(ctx, p, stores, old)
		}
	}
	if err == nil {
		return done, nil
	}
	return done, &failure.Error{
		Op: "restore early apply", Target: "cluster " + name.String(), Kind: failure.Held, Err: err,
		Hint: "run: tisnap release " + name.String() + " --yes, when all stores' status ports answer; a store that " +
			"is restarted has its configured limit again",
	}
}
