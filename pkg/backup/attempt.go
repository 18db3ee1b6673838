package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// attempt is one hold of the cluster, the cut made under it, and its proof. Each attempt gets a new one.
type attempt struct {
	number    int        // of the run's holds; 0 before the first
	hold      *hold.Hold // nil if an earlier process made it
	times     HoldTimes
	backupTS  cluster.TS
	sets      *sets
	proof     proof
	stillHeld error // why the cluster was not released although the cut was proven
	sizes     sizes // of the completed snapshots
}

func newAttempt(number int) attempt { return attempt{number: number, sets: newSets()} }

// follows notes that earlier processes of the run have held the cluster so often.
func (a *attempt) follows(attempts int) { a.number += attempts }

// holds notes the hold that the attempt has begun or found.
func (a *attempt) holds(h *hold.Hold) { a.hold = h }

// cutsAt notes the backup ts.
func (a *attempt) cutsAt(ts cluster.TS) { a.backupTS = ts }

// wasCut notes how long the cut took.
func (a *attempt) wasCut(t cutTimes) {
	a.times.CutStart, a.times.Cut, a.times.Skew = t.start, t.took, t.skew
}

// completed notes the sizes of the snapshots.
func (a *attempt) completed(of sizes) { a.sizes = of }

// notReleased notes that the cut is proven, and why the cluster was not released.
func (a *attempt) notReleased(why error) { a.stillHeld = why }

// adopt continues with the cut of the proof, which an earlier process has recorded.
func (a *attempt) adopt() {
	a.backupTS, a.times = a.proof.BackupTS, a.proof.Hold
	a.proof.restore(a.sets)
}

// release releases the cluster. lost is set if the hold broke before that; err is of kind Held.
func (a *attempt) release(ctx context.Context, s *phase.Scope) (lost, err error) {
	defer func() {
		if a.times.Length == 0 { // first release
			a.times.Start, a.times.Length = a.hold.Started(), a.hold.Length()
		}
	}()
	return releaseUntil(ctx, a.hold, func(err error) { s.Warn("not released yet, retrying: %v", err) })
}

// felt returns how long the attempt held the cluster.
func (a *attempt) felt(of *preflight.Source) HoldTimes {
	times := a.times
	if a.hold == nil {
		return times
	}
	times.Parts, times.Stores = a.hold.Parts(), a.hold.StoreParts()
	for i := range times.Stores {
		parts := &times.Stores[i]
		for _, st := range of.Topology.Stores {
			if st.ID == parts.Store {
				parts.Pod = st.Pod
			}
		}
		if took, ok := a.sets.took(parts.Store); ok {
			parts.Parts = append(parts.Parts, phase.Part{Name: "cut", Seconds: took.Seconds()})
		}
	}
	return times
}

// recordProof stores the proof of the cut, completed with the attempt's own facts.
func (a *attempt) recordProof(p proof) {
	p.BackupTS, p.Hold, p.Sets = a.backupTS, a.felt(p.Source), map[cluster.StoreID][]cutSnapshot{}
	for id, snaps := range a.sets.byStoreNow() {
		for _, s := range snaps {
			p.Sets[id] = append(p.Sets[id], cutSnapshot{ID: s.ID, Volume: s.Volume, StartedAt: s.StartedAt})
		}
	}
	a.proof = p
}
