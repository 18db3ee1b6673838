package volumes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// EBS is what a restore's volumes need from EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Performance
	ebs.Tagger
	ebs.Keys
	// AccountID returns the 12-digit number of the credentials' account.
	AccountID(ctx context.Context) (string, error)
}

// Owner identifies the volumes' owner, by tags.
type Owner struct {
	Runner  *runner.Runner
	Run     cluster.RunID
	Backup  cluster.BackupID
	Target  cluster.Name
	Storage string // its URL, for hints
}

// Earlier is what earlier processes of the run did about volumes, by the journal.
type Earlier struct {
	Epoch    int64 // of the process that first requested them; 0 if none did. Repeated requests must be the same.
	Restarts int   // how often the run started over
}

// Maker makes the volumes of one restore and tracks their state. Its methods must not be called concurrently.
type Maker struct {
	ec2     EBS
	owner   Owner
	opts    Options
	remains *phase.Remains
	times   *phase.StoreTimes
	earlier Earlier

	plan     Plan
	volumes  []Volume  // the plan's, as far as they are made
	asked    bool      // volumes were requested, so unknown ones may exist
	replaced int       // volumes that were lost and requested again
	asking   time.Time // when the first volume was requested
}

// NewMaker makes a maker for a run that has requested nothing. Of Earlier only Restarts may be above 0.
func NewMaker(ec2 EBS, owner Owner, opts Options, remains *phase.Remains, times *phase.StoreTimes) *Maker {
	return &Maker{ec2: ec2, owner: owner, opts: opts, remains: remains, times: times}
}

// Begin sets the volumes to make. It must be called before anything is requested, and may be repeated until then.
func (m *Maker) Begin(plan Plan) { m.plan, m.volumes = plan.clone(), slices.Clone(plan.Volumes) }

// Continue sets what earlier processes of the run did, and whether they may have requested volumes.
func (m *Maker) Continue(earlier Earlier, asked bool) { m.earlier, m.asked = earlier, asked }

// Options returns the maker's options.
func (m *Maker) Options() Options { return m.opts }

// Plan returns what Begin set: no volume of it has an id.
func (m *Maker) Plan() Plan { return m.plan.clone() }

// Volumes returns the volumes as far as they are made. It must not be called while one is.
func (m *Maker) Volumes() []Volume { return slices.Clone(m.volumes) }

// Fill sets the volumes' ids, and the claims that they are filled by.
func (m *Maker) Fill(volume func(Volume) (cluster.VolumeID, kube.FilledClaim)) {
	for i := range m.volumes {
		id, claim := volume(m.volumes[i])
		m.volumes[i].ID, m.volumes[i].Filled = id, &claim
	}
}

// Adopt takes over the volumes that an earlier process made. It returns Corrupt if one is not named.
func (m *Maker) Adopt(ctx context.Context, s *phase.Scope, created Created) error {
	m.asked = true
	for i := range m.volumes {
		v := &m.volumes[i]
		if v.ID = created[v.Snapshot]; v.ID == "" {
			return failure.New(failure.Corrupt, "resume restore", m.owner.Target.String(),
				"its journal names no volume of %s", v.Snapshot).
				WithHint("undo it with `tisnap runs abort %s`, and restore again", m.owner.Run)
		}
	}
	m.retag(ctx, s)
	s.Note("%d volumes are taken over", len(m.volumes))
	return nil
}

// RemainsVolumes is the volumes' key in Remains.
const RemainsVolumes = "volumes"

// noteVolumes records that the run may have made volumes.
func (m *Maker) noteVolumes() {
	count, removal := len(m.volumes), m.removal()
	m.remains.Set(RemainsVolumes, func() string { return "up to " + strconv.Itoa(count) + " volumes: " + removal })
}

// removal describes how to find and delete the run's volumes.
func (m *Maker) removal() string {
	return fmt.Sprintf("they carry the tag %s=%s, and tisnap gc --storage %s --yes deletes those that nothing uses "+
		"an hour later (--older-than 0s: at once)",
		ebs.TagRun, m.owner.Run, m.owner.Storage)
}

// noteVolume records that one more volume of the store is available; the last one's time counts.
func (m *Maker) noteVolume(store cluster.StoreID) {
	if !m.asking.IsZero() {
		m.times.Note(store, "volume", time.Since(m.asking))
	}
}
