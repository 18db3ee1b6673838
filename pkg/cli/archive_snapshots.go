package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// snapshotsAtOnce times what one takes is 290 MiB: 64 blocks on their way, three reads, and one in use.
	snapshotsAtOnce = 4
	snapshotReads   = 3
	// snapshotTimeout is how long a snapshot waits for its next block, and so for the command that resumes.
	snapshotTimeout = 24 * time.Hour
	// completeTimeout is how long EBS may take to complete a snapshot that has all blocks: AWS documents no bound.
	completeTimeout = 6 * time.Hour
)

// archiveSnapshotsDoc is the output of `tisnap archive restore --to-snapshots`.
type archiveSnapshotsDoc struct {
	header
	Archive string             `json:"archive"`
	Items   []restoredSnapshot `json:"items"`
}

// restoredSnapshot is a snapshot of an archived volume.
type restoredSnapshot struct {
	archiveVolume
	Snapshot cluster.SnapshotID `json:"snapshot,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// snapshotFlags select which snapshots are made.
type snapshotFlags struct {
	on          bool
	run, kmsKey string
}

func (f *snapshotFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.on, "to-snapshots", false, "make EBS snapshots in the account and region of --profile and --region")
	fl.StringVar(&f.run, "run-id", "", "id of the restore into snapshots or claims: another one makes others")
	fl.StringVar(&f.kmsKey, "kms-key", "",
		"ARN of the KMS key of the snapshots (default: the account's for those whose source was encrypted)")
}

func (f *snapshotFlags) check(cmd *cobra.Command, toClaims bool) error {
	switch {
	case !f.on && typed(cmd, "kms-key"):
		return errors.New("--kms-key is for --to-snapshots")
	case !f.on && !toClaims && typed(cmd, "run-id"):
		return errors.New("--run-id is for --to-snapshots and --to-claims")
	}
	_, err := runID(f.run)
	return err
}

// ebsDirect connects to the EBS direct APIs of a region.
func (c *connections) ebsDirect(
	ctx context.Context, region string, limits ebsdirect.Limits,
) (*ebsdirect.Client, error) {
	client, err := ebsdirect.Open(ctx, ebsdirect.Config{
		Region: region, Limits: limits, Endpoint: c.global.endpoint, Profile: c.global.profile, Log: c.log,
		RoleARN: c.global.ebsRole, ExternalID: c.global.ebsExternalID,
	})
	if err != nil {
		return nil, err
	}
	c.later(client.Close)
	return client, nil
}

// snapshotMaker makes the snapshots of one archive.
type snapshotMaker struct {
	readArchive
	direct  ebsdirect.Target
	ec2     ebs.Snapshots
	flags   snapshotFlags
	sources map[cluster.SnapshotID]manifest.Snapshot
}

func (a *app) archiveSnapshots(ctx context.Context, found readArchive, f snapshotFlags) error {
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	c, err := a.connections(s.log)
	if err != nil {
		return err
	}
	defer c.close()
	m := &snapshotMaker{readArchive: found, flags: f, sources: sourcesOf(found.archive)}
	e, err := c.ebs(ctx)
	if err != nil {
		return err
	}
	m.ec2 = e
	if m.direct, err = c.ebsDirect(ctx, e.Region(), ebsdirect.Limits{}); err != nil {
		return err
	}
	doc := &archiveSnapshotsDoc{header: newHeader("ArchiveSnapshots"), Archive: found.id, Items: []restoredSnapshot{}}
	err = showBytes(s.progress, "snapshots", summary(found.archive).Data, func(add func(int64)) (err error) {
		doc.Items, err = m.make(ctx, add)
		return err
	})
	s.end()
	return errors.Join(a.print(doc), err)
}

// sourcesOf are the snapshots that were archived, as the backup's manifest has them; none without one.
func sourcesOf(a *format.Archive) map[cluster.SnapshotID]manifest.Snapshot {
	sources := map[cluster.SnapshotID]manifest.Snapshot{}
	m, err := manifest.Decode(a.Manifest.Data)
	if err != nil {
		return sources // of another tool, or of files: then nothing more is known of them
	}
	for _, s := range m.Snapshots {
		sources[s.ID] = s
	}
	return sources
}

// make makes all snapshots, and waits until they are completed. A volume that fails does not keep the others.
func (m *snapshotMaker) make(ctx context.Context, add func(bytes int64)) ([]restoredSnapshot, error) {
	items := []restoredSnapshot{}
	var volumes []format.Volume
	for _, s := range m.archive.Stores {
		for _, v := range s.Volumes {
			items = append(items, restoredSnapshot{archiveVolume: describeVolume(s.ID, v)})
			volumes = append(volumes, v)
		}
	}
	err := parallel.Each(ctx, snapshotsAtOnce, volumes, func(ctx context.Context, i int, v format.Volume) (err error) {
		items[i].Snapshot, err = snapshot.Restore(ctx, m.direct, m.ec2, m.Repository, snapshot.Task{
			Volume: v, Snapshot: m.describe(items[i].Store, v), Reads: snapshotReads, Wrote: add,
		})
		if err == nil {
			err = m.await(ctx, items[i].Snapshot)
		}
		if err != nil {
			items[i].Error = failure.Line(err.Error())
		}
		return failure.Annotate(err, phaseRestore, fmt.Sprintf("store %d %s", items[i].Store, v.Role))
	})
	return items, err
}

// describe is the snapshot of a volume. Its token is of the repository, the archive and the run: the same command finds
// what an earlier process made. It carries no run, so that gc leaves it.
func (m *snapshotMaker) describe(store uint64, v format.Volume) ebsdirect.NewSnapshot {
	run := fmt.Sprintf("%s/%s/%s", m.ID(), m.id, m.flags.run)
	tags := ebs.Tags{ebs.TagArchive: m.id, ebs.TagStore: fmt.Sprint(store), ebs.TagRole: v.Role}
	if !m.archive.Imported() { // it is no backup's snapshot
		tags[ebs.TagBackup] = m.archive.Backup
	}
	if m.archive.Cluster != "" {
		tags[ebs.TagCluster] = m.archive.Cluster
	}
	source := m.sources[cluster.SnapshotID(v.Source)]
	if source.Volume != "" {
		tags[ebs.TagVolumeOf+v.Role] = string(source.Volume)
	}
	return ebsdirect.NewSnapshot{
		Token: ebsdirect.Token(run, fmt.Sprintf("%d/%s", store, v.Role)), Timeout: snapshotTimeout, Tags: tags,
		Encrypted: source.Encrypted || m.flags.kmsKey != "", KMSKey: m.flags.kmsKey,
		Description: fmt.Sprintf("tisnap archive %s, store %d %s", m.id, store, v.Role),
	}
}

// await waits until a snapshot is completed, for completeTimeout at most: the same command waits on.
func (m *snapshotMaker) await(ctx context.Context, id cluster.SnapshotID) error {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	return wait.Until(ctx, wait.Growing(time.Second, 30*time.Second), func() (bool, error) {
		found, err := m.ec2.DescribeSnapshots(ctx, []cluster.SnapshotID{id})
		switch {
		case err != nil && !failure.Transient(err):
			return true, err
		case len(found) == 0 || err != nil:
			return false, err
		case found[0].State == ebs.SnapshotError:
			return true, failure.New(failure.Corrupt, "await snapshot", string(id), "it is in state error").
				WithHint("delete it, and restore by another --run-id")
		}
		return found[0].State == ebs.SnapshotCompleted, nil
	})
}

func (d *archiveSnapshotsDoc) names() (names []string) {
	for _, i := range d.Items {
		names = append(names, nameIf(i.Snapshot != "", "snapshot", i.Snapshot)...)
	}
	return names
}

func (d *archiveSnapshotsDoc) table(w io.Writer, v view) error {
	t := newTable("STORE", "ROLE", "SIZE", "DATA", "SNAPSHOT", "STATE")
	t.drop = []string{"DATA", "SIZE"}
	for _, i := range d.Items {
		state := "completed"
		if i.Error != "" {
			state = "failed"
		}
		t.row(i.Store, i.Role, iBytes(i.Size), iBytes(i.Saved*volume.BlockSize), i.Snapshot, state)
	}
	return t.write(w, v)
}
