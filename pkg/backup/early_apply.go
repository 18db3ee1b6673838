package backup

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// EarlyApplyPolicy is what a backup does about TiKV's early apply.
type EarlyApplyPolicy string

// The policies. If the stores cannot be set, or nothing can be proven, PreventEarlyApply seals the backup as unproven
// and RequireNoEarlyApply fails it.
const (
	PreventEarlyApply   EarlyApplyPolicy = "prevent"
	IgnoreEarlyApply    EarlyApplyPolicy = "ignore"
	RequireNoEarlyApply EarlyApplyPolicy = "require"
)

// EarlyApplyPolicies lists the policies.
func EarlyApplyPolicies() []string {
	return []string{string(PreventEarlyApply), string(IgnoreEarlyApply), string(RequireNoEarlyApply)}
}

// ParseEarlyApplyPolicy returns a Usage error for an unknown policy.
func ParseEarlyApplyPolicy(s string) (EarlyApplyPolicy, error) {
	if slices.Contains(EarlyApplyPolicies(), s) {
		return EarlyApplyPolicy(s), nil
	}
	return "", failure.New(failure.Usage, "check options", "", "--early-apply %q: want prevent, ignore or require", s)
}

const (
	// adoptLimit bounds the wait until no leader uses the old setting.
	adoptLimit = time.Minute
	// replicasLimit bounds the reading of all replicas before the hold, rereadLimit the one after it.
	replicasLimit = 2 * time.Minute
	rereadLimit   = 30 * time.Second
	// putBackLimit bounds the first attempt to restore the settings; there is another after the seal.
	putBackLimit = 10 * time.Second
	// earlyApplyLimit bounds reading, setting and adoption together.
	earlyApplyLimit = adoptLimit + time.Minute
)

// undoEarlyLimit bounds the attempts to restore the settings when a run fails; tests wait less.
var undoEarlyLimit = time.Minute // a variable for tests

// earlyApply turns early apply off for a run, restores it, and proves in between that no replica was ahead.
type earlyApply struct {
	pd   notedPD
	tikv interface {
		tikv.Marker
		earlyapply.Waker
	}
	applier tikv.EarlyApplier // nil changes nothing
	remains *phase.Remains
	opts    Options

	old    []earlyapply.Setting // to be restored
	before *earlyapply.Replicas // as read before the cut; nil if they were not read
	early
}

// early is the state of early apply on a cluster's stores.
type early struct {
	absent bool                // no store has the setting
	failed earlyapply.Failures // stores where it may be on
	stores []earlyapply.Store
}

// proving reports whether this run must prove that no replica was ahead.
func (e *earlyApply) proving() bool { return e.applier != nil && e.opts.EarlyApply != IgnoreEarlyApply }

// preventing reports whether this run turns early apply off. Under another process's hold that process does.
func (e *earlyApply) preventing() bool { return e.proving() && !e.opts.OtherHolds }

// steps turn early apply off and read all replicas. The first is outside the attempts at the hold: its effect lasts for
// all of them. The second also finds stores restarted in between.
func (e *earlyApply) steps() (once, each []phase.Step) {
	if !e.preventing() {
		return nil, nil
	}
	return []phase.Step{{
			Phase: phaseTask, Name: journal.StepEarlyApply, Deadline: earlyApplyLimit, Do: e.prevent,
			Undo: phase.Undo{Do: e.undo, Deadline: undoEarlyLimit, First: true, Unfenced: releases},
		}}, []phase.Step{{
			Phase: phaseTask, Name: journal.StepReadReplicas, Deadline: earlyApplyLimit + replicasLimit,
			Do: e.readReplicas,
		}}
}

// prevent sets every store's limit to 0 and waits until all leaders use it. The old settings are journalled before. A
// store that cannot be read or set is an error only with the policy require.
func (e *earlyApply) prevent(ctx context.Context, s *phase.Scope) error {
	stores, err := earlyStores(ctx, e.pd, e.opts.Cluster)
	if err != nil {
		return err
	}
	survey := earlyapply.Read(ctx, e.applier, stores)
	e.absent, e.failed, e.stores = survey.NotApplicable(), survey.Failed, stores
	old, err := recordEarly(ctx, e.pd, e.opts.Run, stores, survey, e.old)
	if err != nil {
		s.Note("the old limits of early apply are only in the run's journal: %v", err)
	}
	if len(old) > 0 {
		if err := s.Intent(ctx, journal.IntentEarlyApply, old); err != nil {
			return err
		}
		e.old = earlyapply.Add(e.old, old) // the first value seen is what the store had before this run
		remainsEarly(e.remains, e.opts.Cluster, e.old)
	}
	if len(survey.On) > 0 {
		e.fail(earlyapply.TurnOff(ctx, e.applier, stores, survey.On))
		s.Note("early apply is off on %d stores", len(survey.On))
	}
	if !e.absent {
		waiting, cancel := context.WithTimeout(ctx, adoptLimit)
		defer cancel()
		e.fail(earlyapply.AwaitAdopted(waiting, e.applier, e.tikv, e.able(), e.allRegions))
	}
	if err := ctx.Err(); err != nil {
		return failure.Annotate(context.Cause(ctx), "turn off early apply", e.opts.Cluster.String())
	}
	return e.check(s)
}

// recordEarly records in PD what the run is about to turn off, and returns that and what dead runs left off, except
// what is already known: all of it must be restored. An error means that PD has no record of it, or did not show one.
func recordEarly(
	ctx context.Context, p notedPD, run cluster.RunID, stores []earlyapply.Store,
	survey *earlyapply.Survey, known []earlyapply.Setting,
) (old []earlyapply.Setting, err error) {
	left, err := earlyapply.ReadRecord(ctx, p, stores)
	for _, l := range left {
		if slices.Contains(survey.Off, l.Store) && !earlyapply.Names(known, l.Store) {
			old = append(old, l.Setting)
		}
	}
	if err == nil && len(survey.On) > 0 {
		// If a store was being restarted, the process that reported its setting may be newer than the one PD listed.
		// Recorded as the older one, it would stay off if this run is killed.
		if now, listErr := tikvStores(ctx, p, cluster.Name{}); listErr == nil {
			stores = now
		}
		err = earlyapply.Record(ctx, p, run, stores, survey.On)
	}
	return append(old, survey.On...), err
}

// check warns of, or refuses, stores where early apply may be on.
func (e *earlyApply) check(s *phase.Scope) error {
	err := earlyApplyOn(e.opts.Cluster, e.failed)
	if err == nil || e.opts.EarlyApply == RequireNoEarlyApply {
		return err
	}
	s.Warn("a restore has to look for replicas that are ahead of their raft logs: %v (%s)", err, failure.HintOf(err))
	return nil
}

// earlyApplyOn names the stores where it may be on, and the permission to grant; nil if there are none.
func earlyApplyOn(name cluster.Name, failed earlyapply.Failures) error {
	if len(failed) == 0 {
		return nil
	}
	var reasons []string
	for _, id := range failed.Stores() {
		reasons = append(reasons, "store "+id.String()+": "+failed[id].Error())
	}
	return failure.New(failure.Unready, "turn off early apply", name.String(), "not proven on %d stores: %s",
		len(failed), strings.Join(reasons, "; ")).
		WithHint("allow GET /metrics and GET and POST /config on the status port of these stores (20180, " +
			"security.cert-allowed-cn), or set raftstore.max-apply-unpersisted-log-limit to 0")
}

// readReplicas reads where each replica's log and data end, right before the hold, with early apply off.
func (e *earlyApply) readReplicas(ctx context.Context, s *phase.Scope) error {
	e.before = nil
	// What is there was left by a killed pause: no other process holds the cluster.
	if err := earlyapply.Unpublish(ctx, e.pd, ""); err != nil {
		s.Note("could not remove what another process left in PD: %v", err)
	}
	if err := e.prevent(ctx, s); err != nil || e.absent {
		return err
	}
	regions, err := e.allRegions(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, replicasLimit)
	defer cancel()
	e.before = earlyapply.ReadReplicas(limited, e.tikv, e.able(), regions)
	if ctx.Err() != nil {
		return failure.Annotate(context.Cause(ctx), "read replicas", e.opts.Cluster.String())
	}
	return nil
}

func (e *earlyApply) allRegions(ctx context.Context) ([]cluster.Region, error) {
	regions, err := e.pd.Regions(ctx, cluster.KeyRange{})
	return regions, failure.Annotate(err, "list regions", e.opts.Cluster.String())
}

func (e *early) fail(failed earlyapply.Failures) {
	for id, err := range failed {
		e.failed[id] = err
	}
}

// able lists the stores where early apply is off.
func (e *early) able() []earlyapply.Store {
	return slices.DeleteFunc(slices.Clone(e.stores), func(s earlyapply.Store) bool { return e.failed[s.ID] != nil })
}

// earlyStores lists all TiKV stores in PD that are not tombstones, at least one.
func earlyStores(ctx context.Context, p pd.Members, name cluster.Name) ([]earlyapply.Store, error) {
	stores, err := tikvStores(ctx, p, name)
	if err == nil && len(stores) == 0 {
		err = failure.New(failure.Unready, "list stores", name.String(), "PD lists no TiKV store")
	}
	return stores, err
}

func tikvStores(ctx context.Context, p pd.Members, name cluster.Name) ([]earlyapply.Store, error) {
	all, err := p.Stores(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list stores", name.String())
	}
	var stores []earlyapply.Store
	for _, st := range all {
		if live(st) {
			stores = append(stores, earlyapply.Store{
				ID: st.ID, Address: st.Address, StatusAddress: st.StatusAddress, StartedAt: st.StartedAt,
			})
		}
	}
	return stores, nil
}
