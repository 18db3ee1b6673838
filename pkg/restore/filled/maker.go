package filled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/claims"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/workers"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// Deadline only keeps a run from staying for ever: each Job has a limit of its own.
const Deadline = 60 * 24 * time.Hour

// Kube is what a Maker asks Kubernetes besides.
type Kube interface {
	// Zones lists, for each of the pods, the zones of the nodes that it may be put on.
	Zones(ctx context.Context, pods ...podnodes.Rules) ([][]cluster.Zone, error)
	// AllowedToFill checks every permission that filling volumes needs; the first missing one is Denied.
	AllowedToFill(ctx context.Context, namespace string) error
}

// Way is how the volumes of a restore are filled.
type Way struct {
	Kube   Kube
	Claims *blockvolume.Claims
	Jobs   *workers.Jobs
	// Class is the StorageClass of all volumes of the target; "" keeps those of the source.
	Class string
	// Pod, Workers and Final are those of claims.Options.
	Pod     workers.Spec
	Workers int
	Final   []int
}

// Request returns what a process that resumes the restore must have been asked for, too.
func (w *Way) Request() map[string]string {
	return map[string]string{journal.ArchiveVia: journal.ViaVolumes, "storage-class": w.Class}
}

// Maker makes the volumes of one restore. Its methods must not be called concurrently.
type Maker struct {
	kube    Kube
	source  *fromarchive.Source
	owner   volumes.Owner
	fill    *claims.Filler
	remains *phase.Remains
	earlier *journal.FillVolumes // of an earlier process; nil if none came to it
	done    bool                 // earlier processes have filled all volumes
	classes map[string]journal.StorageClass
	drivers map[string]string // by role
}

// NewMaker makes a maker for a run that has made nothing.
func NewMaker(way *Way, source *fromarchive.Source, owner volumes.Owner, remains *phase.Remains) *Maker {
	return &Maker{
		kube: way.Kube, source: source, owner: owner, remains: remains,
		fill: &claims.Filler{Claims: way.Claims, Jobs: way.Jobs, Options: claims.Options{
			Run: owner.Run, Archive: source.ID, Namespace: owner.Target.Namespace, Pod: way.Pod, Workers: way.Workers,
			Final: way.Final,
		}},
	}
}

// Continue sets what earlier processes of the run did, nil if they had not come to it or it is unreadable, and whether
// they filled all volumes.
func (m *Maker) Continue(earlier *journal.FillVolumes, done bool) {
	if earlier != nil && earlier.Archive != "" {
		m.earlier, m.done = earlier, done
	}
}

// Check checks the permissions.
func (m *Maker) Check(ctx context.Context) error {
	return m.kube.AllowedToFill(ctx, m.owner.Target.Namespace)
}

// Volume is one that was filled.
type Volume struct {
	Store  cluster.StoreID    `json:"store"`
	Role   cluster.Role       `json:"role"`
	Claim  blockvolume.Claim  `json:"claim"`
	Volume blockvolume.Volume `json:"volume"`
}

// Made are the volumes that were filled. It is journalled.
type Made []Volume

// of returns that of a store's role.
func (m Made) of(store cluster.StoreID, role cluster.Role) (Volume, bool) {
	i := slices.IndexFunc(m, func(v Volume) bool { return v.Store == store && v.Role == role })
	if i < 0 {
		return Volume{}, false
	}
	return m[i], true
}

// Fill makes a claim for each volume of a plan, and has all of them filled. The same run continues what an earlier
// process began. It returns what is filled also on error.
func (m *Maker) Fill(ctx context.Context, s *phase.Scope, of *manifest.Manifest) (Made, error) {
	zones := map[cluster.StoreID]cluster.Zone{}
	for store, zone := range m.fill.Options.Zones {
		zones[cluster.StoreID(store)] = zone
	}
	maps.DeleteFunc(zones, func(_ cluster.StoreID, z cluster.Zone) bool { return z == "" })
	if err := s.Intent(ctx, journal.IntentFillVolumes, journal.FillVolumes{
		Archive: m.source.ID, Repository: m.source.Repository.ID().String(), Volumes: len(of.Snapshots), Zones: zones,
		Classes: m.classes,
	}); err != nil {
		return nil, err
	}
	m.remains.Set(remainsFilled, func() string {
		return fmt.Sprintf("up to %d volumes of archive %s, with claims and Jobs: %s", len(of.Snapshots), m.source.ID,
			m.removal())
	})
	s.Expect(int64(len(of.Snapshots)), "volumes")
	m.fill.Stand = claims.Watch(func(store uint64, text string, state workers.State) { m.show(s, store, text, state) })
	items, err := m.fill.Fill(ctx, m.source.Archive)
	var made Made
	for _, one := range items {
		if one.Err == nil {
			v := Volume{cluster.StoreID(one.Store), cluster.Role(one.Volume.Role), one.Claim, one.Bound}
			made, err = append(made, v), failure.Join(err, m.ofDriver(&v))
		}
	}
	s.Reached(int64(len(made)))
	return made, err
}

// ofDriver refuses a volume of another driver than that of the class that was checked: the class was replaced since.
func (m *Maker) ofDriver(v *Volume) error {
	if v.Volume.Driver == m.drivers[string(v.Role)] {
		return nil
	}
	return failure.New(failure.Conflict, "fill volumes", v.Claim.String(),
		"its volume is of the driver %s, and its StorageClass was of %s: someone has replaced the class",
		v.Volume.Driver, m.drivers[string(v.Role)]).WithHint("restore again, by one that stays as it is")
}

// show notes how a store's pod stands, and counts the volumes of one that is done.
func (m *Maker) show(s *phase.Scope, store uint64, text string, state workers.State) {
	s.Note("store %d: %s", store, text)
	if !state.Done {
		return
	}
	for _, one := range m.source.Archive.Stores {
		if one.ID == store {
			s.Advance(int64(len(one.Volumes)))
		}
	}
}

// BySnapshot maps the archived snapshots of a plan to what was filled with them. One that nothing was is Corrupt.
func (m Made) BySnapshot(plan volumes.Plan) (map[cluster.SnapshotID]Volume, error) {
	out := map[cluster.SnapshotID]Volume{}
	for _, v := range plan.Volumes {
		filled, there := m.of(v.Store, v.Role)
		if !there {
			return nil, failure.New(failure.Corrupt, "name volumes", fmt.Sprintf("store %s %s", v.Store, v.Role),
				"none was filled with it: %d of %d were", len(m), len(plan.Volumes))
		}
		out[v.Snapshot] = filled
	}
	return out, nil
}

// Planned is a planned volume as it is filled.
func (v *Volume) Planned(plan *kube.FilledClaim) (cluster.VolumeID, kube.FilledClaim) {
	return cluster.VolumeID(v.Volume.Handle), kube.FilledClaim{
		Claim: v.Claim, Driver: v.Volume.Driver, Class: plan.Class,
	}
}

// remainsFilled is the volumes' key in Remains.
const remainsFilled = "volumes of the archive"

// removal is the command that deletes what the run made.
func (m *Maker) removal() string {
	return fmt.Sprintf("tisnap restore abort %s", m.owner.Run)
}

// Kept describes the volumes when the lock is lost.
func (m *Maker) Kept() string {
	return fmt.Sprintf("the volumes of run %s are kept: another process may continue the run with them; else %s "+
		"removes them", m.owner.Run, m.removal())
}

// Delete removes the run's Jobs, and the claims and volumes that they filled, unless a claim of a cluster has one by
// now. All are tried, whatever fails.
func (m *Maker) Delete(ctx context.Context, s *phase.Scope) error {
	removed, err := m.fill.Remove(ctx)
	s.Reached(int64(len(removed)))
	if err != nil && !failure.Is(err, failure.NotFound) {
		return failure.Annotate(err, "remove volumes", "run "+string(m.owner.Run))
	}
	m.remains.Clear(remainsFilled)
	return nil
}
