package volumes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runner"
)

// EBS is what the volumes of a restore need of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Performance
	ebs.Tagger
	ebs.Keys
	// AccountID is the 12-digit number of the account that calls go to.
	AccountID(ctx context.Context) (string, error)
}

// Owner is whose volumes they are: what they are tagged with, and found by.
type Owner struct {
	Runner  *runner.Runner
	Run     cluster.RunID
	Backup  cluster.BackupID
	Target  cluster.Name
	Storage string // its URL, for hints
}

// Earlier is what earlier processes of the run did about volumes, by their journal.
type Earlier struct {
	Epoch    int64 // of the process that asked for them first; 0 if none did. Who asks again has to ask for the same.
	Restarts int   // how often the run was undone and begun again
}

// Maker makes the volumes of one restore, and knows of each how far it is. Its methods are called one after the other.
type Maker struct {
	ec2     EBS
	owner   Owner
	opts    Options
	remains *phase.Remains
	times   *phase.StoreTimes
	earlier Earlier

	plan     Plan
	asked    bool      // volumes were asked for, so some may exist that no answer named
	replaced int       // volumes that were lost and asked for again
	asking   time.Time // when the first volume was asked for
}

// NewMaker makes the maker of a run that has asked for nothing. Of Earlier only Restarts may be above 0 then.
func NewMaker(ec2 EBS, owner Owner, opts Options, remains *phase.Remains, times *phase.StoreTimes) *Maker {
	return &Maker{ec2: ec2, owner: owner, opts: opts, remains: remains, times: times}
}

// Begin says which volumes are to be made. It is called before anything is asked for, and may be called again until
// then.
func (m *Maker) Begin(plan Plan) { m.plan = plan }

// Continue says what earlier processes of the run did, and whether they may have asked for volumes.
func (m *Maker) Continue(earlier Earlier, asked bool) { m.earlier, m.asked = earlier, asked }

// Options are those that it was made with.
func (m *Maker) Options() Options { return m.opts }

// Plan is the volumes, as far as they are made. It is the maker's own: the caller changes nothing in it.
func (m *Maker) Plan() *Plan { return &m.plan }

// Adopt takes over the volumes that an earlier process has made. It is Corrupt if one is not named.
func (m *Maker) Adopt(ctx context.Context, s *phase.Scope, created Created) error {
	m.asked = true
	for i := range m.plan.Volumes {
		v := &m.plan.Volumes[i]
		if v.ID = created[v.Snapshot]; v.ID == "" {
			return failure.New(failure.Corrupt, "resume restore", m.owner.Target.String(),
				"its journal names no volume of %s", v.Snapshot).
				WithHint("undo it with `tisnap runs abort %s`, and restore again", m.owner.Run)
		}
	}
	m.retag(ctx, s)
	s.Note("%d volumes are taken over", len(m.plan.Volumes))
	return nil
}

// RemainsVolumes is the name under which Remains has the volumes.
const RemainsVolumes = "volumes"

// noteVolumes says that the run may have made volumes.
func (m *Maker) noteVolumes() {
	count, removal := len(m.plan.Volumes), m.removal()
	m.remains.Set(RemainsVolumes, func() string { return "up to " + strconv.Itoa(count) + " volumes: " + removal })
}

// removal says how the run's volumes are found and deleted.
func (m *Maker) removal() string {
	return fmt.Sprintf("they carry the tag %s=%s, and tisnap gc --storage %s --yes deletes those that nothing uses "+
		"an hour later (--older-than 0s: at once)",
		ebs.TagRun, m.owner.Run, m.owner.Storage)
}

// noteVolume notes that one more volume of the store is available; the last one's time stays.
func (m *Maker) noteVolume(store cluster.StoreID) {
	if !m.asking.IsZero() {
		m.times.Note(store, "volume", time.Since(m.asking))
	}
}
