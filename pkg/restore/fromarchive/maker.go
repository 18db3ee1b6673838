package fromarchive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Deadlines of the steps.
const (
	// WriteDeadline only keeps a run from staying for ever: each call has a limit of its own.
	WriteDeadline = 60 * 24 * time.Hour
	// AwaitDeadline is for EBS, which documents no bound for the completion of a snapshot that has all blocks.
	AwaitDeadline = 24 * time.Hour
)

const (
	// atOnce times what one snapshot takes is 290 MiB: 64 blocks on their way, three reads, and one in use.
	atOnce = 4
	reads  = 3
	// patience is how long a snapshot waits for its next block, and so for the process that resumes.
	patience = 24 * time.Hour
	// maxGenerations bounds the snapshots of one volume: EBS gave up all but the last.
	maxGenerations = 5
)

// EC2 is what a Maker needs of it.
type EC2 interface {
	ebs.Snapshots
	ebs.Tagger
}

// Options are what the user chose about the snapshots.
type Options struct {
	KMSKey     string        // of the volumes; an ARN is the snapshots', too
	Encrypt    bool          // also those whose source was not encrypted
	Visibility time.Duration // how long EC2 may hide a snapshot that exists
	Poll       time.Duration // how often EC2 is polled
}

// Earlier is what earlier processes of the run did about snapshots, by the journal.
type Earlier struct {
	Epoch    int64 // of the process that first requested them; 0 if none did. Repeated requests must be the same.
	Restarts int   // how often the run started over
	Put      map[cluster.SnapshotID]int
}

// Maker makes the snapshots of one restore. Its methods must not be called concurrently.
type Maker struct {
	source  *Source
	ec2     EC2
	owner   volumes.Owner
	opts    Options
	remains *phase.Remains
	earlier Earlier
}

// NewMaker makes a maker for a run that has requested nothing. Of Earlier only Restarts may be above 0.
func NewMaker(source *Source, ec2 EC2, owner volumes.Owner, opts Options, remains *phase.Remains) *Maker {
	return &Maker{source: source, ec2: ec2, owner: owner, opts: opts, remains: remains}
}

// Continue sets what earlier processes of the run did.
func (m *Maker) Continue(earlier Earlier) { m.earlier = earlier }

// intent is the data of journal.IntentWriteSnapshots.
type intent struct {
	Archive    string `json:"archive"`
	Repository string `json:"repository"`
	Snapshots  int    `json:"snapshots"`
}

// Write makes a snapshot of each of the manifest's, and puts all of its blocks. What an earlier process has put is not
// read and not put again. It returns what was made also on error.
func (m *Maker) Write(ctx context.Context, s *phase.Scope, of *manifest.Manifest) (Made, error) {
	if err := s.Intent(ctx, journal.IntentWriteSnapshots, intent{
		m.source.ID, m.source.Repository.ID().String(), len(of.Snapshots),
	}); err != nil {
		return nil, err
	}
	m.remains.Set(remainsSnapshots, func() string {
		return fmt.Sprintf("up to %d snapshots of archive %s: %s", len(of.Snapshots), m.source.ID, m.removal())
	})
	bytes, _ := m.source.Bytes()
	s.Expect(bytes/volume.BlockSize, "blocks")
	archived := m.source.volumes()
	largest := slices.SortedFunc(slices.Values(of.Snapshots), func(a, b manifest.Snapshot) int {
		return cmp.Compare(archived[b.ID].Counts.Saved, archived[a.ID].Counts.Saved)
	})
	made, mu := Made{}, sync.Mutex{}
	err := parallel.Each(ctx, atOnce, largest, func(ctx context.Context, _ int, snap manifest.Snapshot) error {
		v := archived[snap.ID]
		id, err := m.write(ctx, s, snap, &v)
		mu.Lock()
		defer mu.Unlock()
		if id != "" {
			made[snap.ID] = id
		}
		return failure.Annotate(err, "write snapshot", v.name())
	})
	if err == nil {
		m.retag(ctx, s, made)
	}
	return made, err
}

// write makes one snapshot. One that EBS gave up is left behind, and another one is made, by another token.
func (m *Maker) write(
	ctx context.Context, s *phase.Scope, snap manifest.Snapshot, v *archived,
) (cluster.SnapshotID, error) {
	for generation := 1; ; generation++ {
		var put blocks
		id, err := snapshot.Restore(ctx, m.source.Blocks, m.ec2, m.source.Repository, snapshot.Task{
			Volume: v.Volume, Snapshot: m.describe(snap, v, generation), Reads: reads,
			Put: func(id cluster.SnapshotID) int { return m.earlier.Put[id] },
			HasPut: func(id cluster.SnapshotID, n int) {
				s.Result(journal.ResultPut, journal.Put{Snapshot: id, Segments: n})
			},
			Wrote: func(bytes int64) { s.Advance(put.add(bytes)) },
		})
		gone := errors.Is(err, snapshot.ErrAbandoned) || id != "" && failure.Is(err, failure.NotFound)
		if !gone || generation == maxGenerations {
			return id, err
		}
		s.Warn("snapshot %s is given up by EBS, or deleted: making another one of %s: %v", id, v.name(), err)
		s.Advance(-put.sum())
	}
}

// blocks counts what was put, concurrently.
type blocks struct {
	mu sync.Mutex
	n  int64
}

func (b *blocks) add(bytes int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += bytes / volume.BlockSize
	return bytes / volume.BlockSize
}

func (b *blocks) sum() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// describe is the snapshot of a volume. Its token is of the run alone, and of what it is a copy of: the same run finds
// what an earlier process made, and no other run does.
func (m *Maker) describe(snap manifest.Snapshot, v *archived, generation int) ebsdirect.NewSnapshot {
	tags := ebs.Tags{
		ebs.TagRun: string(m.owner.Run), ebs.TagBackup: string(m.owner.Backup), ebs.TagCluster: m.owner.Target.String(),
		ebs.TagStore: v.Store.String(), ebs.TagRole: v.Role, ebs.TagArchive: m.source.ID,
		ebs.TagEpoch: ebs.EpochTag(cmp.Or(m.earlier.Epoch, m.owner.Runner.Fence().Epoch())),
	}
	if m.owner.Runner.StorageID() != "" {
		tags[ebs.TagStorage] = m.owner.Runner.StorageID()
	}
	of := strings.Join([]string{
		string(m.owner.Run), m.source.Repository.ID().String(), m.source.ID, strconv.Itoa(m.earlier.Restarts),
		strconv.Itoa(generation),
	}, "/")
	out := ebsdirect.NewSnapshot{
		Token: ebsdirect.Token(of, v.name()), Timeout: patience, Tags: tags,
		Encrypted:   snap.Encrypted || m.opts.KMSKey != "" || m.opts.Encrypt,
		Description: fmt.Sprintf("tisnap archive %s, %s", m.source.ID, v.name()),
	}
	if strings.HasPrefix(m.opts.KMSKey, "arn:") { // the API takes no other name of a key
		out.KMSKey = m.opts.KMSKey
	}
	return out
}

// Adopt takes over the snapshots that an earlier process made.
func (m *Maker) Adopt(ctx context.Context, s *phase.Scope, made Made) {
	m.retag(ctx, s, made)
	s.Note("%d snapshots of archive %s are taken over", len(made), m.source.ID)
}

// retag gives snapshots requested by an earlier process this process's epoch.
func (m *Maker) retag(ctx context.Context, s *phase.Scope, made Made) {
	if m.earlier.Epoch == 0 || m.earlier.Epoch == m.owner.Runner.Fence().Epoch() {
		return
	}
	if err := ebs.Retag(ctx, m.ec2, made.IDs(), m.owner.Runner.Fence().Epoch()); err != nil {
		s.Note("the snapshots that an earlier process asked for keep its epoch (%s): %v", failure.HintOf(err), err)
	}
}

// Await waits until EBS has completed all snapshots.
func (m *Maker) Await(ctx context.Context, s *phase.Scope, made Made) error {
	s.Expect(int64(len(made)), "snapshots")
	return wait.Until(ctx, wait.Growing(m.opts.Poll, 30*time.Second), func() (bool, error) {
		found, err := m.ec2.DescribeSnapshots(ctx, made.IDs())
		if err != nil {
			return !failure.Transient(err), failure.Annotate(err, "await snapshots", m.source.ID)
		}
		var completed int64
		for _, snap := range found {
			switch snap.State {
			case ebs.SnapshotCompleted:
				completed++
			case ebs.SnapshotError:
				return true, failure.New(failure.Corrupt, "await snapshots", string(snap.ID),
					"it is in state error, although EBS has accepted all of its blocks").
					WithHint("restore again, and see AWS Health")
			default: // pending, or hidden yet
			}
		}
		s.Reached(completed)
		return completed == int64(len(made)), nil
	})
}
