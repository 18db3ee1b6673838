package create

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// preflight finds, without changing anything, what could end the run later.
func (r *run) preflight(ctx context.Context, _ *phase.Scope) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if r.opts.Shared && !r.Repository.Settings().Storage.ManyWriters() {
		return failure.New(failure.Usage, "share archive", string(r.opts.Backup),
			"the repository's storage allows one writer at a time: it ignores conditional writes").
			WithHint("leave --shared out")
	}
	return r.checkSnapshots(ctx)
}

// load reads the backup, which must be sealed and not be deleted.
func (r *run) load(ctx context.Context) error {
	document, m, err := r.catalog.Document(ctx, r.opts.Backup)
	if err != nil {
		return err
	}
	r.document, r.manifest = document.Manifest, m
	r.result.Manifest = r.manifest
	switch {
	case m.Source.Cluster != r.opts.Cluster:
		return failure.New(failure.Conflict, "create archive", string(m.ID), "it is of cluster %s, not of %s",
			m.Source.Cluster, r.opts.Cluster)
	case m.Region != r.Region:
		return failure.New(failure.Usage, "create archive", string(m.ID), "its snapshots are in %s", m.Region).
			WithHint("pass --region %s", m.Region)
	case len(m.Snapshots) == 0:
		return failure.New(failure.Corrupt, "create archive", string(m.ID), "it has no snapshot")
	}
	return nil
}

// checkSnapshots refuses a backup whose snapshots cannot all be read.
func (r *run) checkSnapshots(ctx context.Context) error {
	found, err := r.EC2.DescribeSnapshots(ctx, r.manifest.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", string(r.opts.Backup))
	}
	var bad []string
	hint := "archive another backup, or make these snapshots readable: completed, in the standard tier"
	for _, want := range r.manifest.Snapshots {
		i := slices.IndexFunc(found, func(s ebs.Snapshot) bool { return s.ID == want.ID })
		switch {
		case i < 0:
			bad = append(bad, fmt.Sprintf("%s does not exist", want.ID))
		case !readable(&found[i]):
			bad = append(bad, fmt.Sprintf("%s is %s", want.ID, state(&found[i])))
			if found[i].Archived {
				hint = ebs.BackFromArchive(r.Region)
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return failure.New(failure.Unready, "check snapshots", string(r.opts.Backup), "%d of %d cannot be read: %s",
		len(bad), len(r.manifest.Snapshots), failure.List(bad)).
		WithHint("%s", hint)
}

// readable reports whether the EBS direct APIs read a snapshot.
func readable(s *ebs.Snapshot) bool {
	return s.State == ebs.SnapshotCompleted && !s.Archived && s.Outpost == ""
}

func state(s *ebs.Snapshot) string {
	switch {
	case s.Archived:
		return "in the archive tier"
	case s.Outpost != "":
		return "on an Outpost"
	}
	return string(s.State)
}

// choose fixes the archive's id and its base, which is looked for under the archive's lease.
func (r *run) choose(ctx context.Context, s *phase.Scope) (err error) {
	if r.choice.Archive == "" {
		var random [4]byte
		_, _ = rand.Read(random[:]) // never fails
		r.choice = choice{
			Archive: string(r.opts.Backup) + "-" + hex.EncodeToString(random[:]),
			Created: time.Now().UTC().Truncate(time.Second),
		}
	}
	if err := r.load(ctx); err != nil { // a process that resumes the run skips the preflight
		return err
	}
	if err := r.takeLease(ctx); err != nil {
		return err
	}
	if r.choice.Base, err = r.findBase(ctx, s); err != nil {
		return err
	}
	return r.prepare(ctx, s)
}

// prepare makes the works by the choice. The backup is read again, since from here on the lock protects it.
func (r *run) prepare(ctx context.Context, s *phase.Scope) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.resumeLease(ctx); err != nil {
		return err
	}
	condemned, err := r.condemned(ctx)
	if err != nil {
		return err
	}
	r.result.Archive, r.result.Base = r.choice.Archive, r.choice.Base
	return r.makeWorks(ctx, s, condemned)
}

// findBase returns the id of the archive to compare with; "" for none.
func (r *run) findBase(ctx context.Context, s *phase.Scope) (string, error) {
	switch r.opts.Base {
	case NoBase:
		return "", nil
	case "":
		return r.newest(ctx, s)
	}
	a, err := r.Repository.Archive(ctx, r.opts.Base)
	if err != nil {
		return "", err
	}
	if a.Imported() {
		return "", failure.New(failure.Usage, "choose base", r.opts.Base, "it is an import, and of no cluster").
			WithHint("leave --base out, or pass --base none")
	}
	if !r.sameCluster(a) {
		return "", failure.New(failure.Usage, "choose base", r.opts.Base, "it is of another cluster: %s", a.Cluster).
			WithHint("leave --base out, or pass --base none")
	}
	return r.opts.Base, nil
}

// newest returns the archive of the cluster whose backup is the newest of those that are not newer than this one, or of
// all. One that cannot be read is none.
func (r *run) newest(ctx context.Context, s *phase.Scope) (string, error) {
	ids, err := r.Repository.Archives(ctx)
	if err != nil {
		return "", err
	}
	var found string
	var best struct {
		before bool
		ts     uint64
	}
	for _, id := range ids {
		a, err := r.Repository.Archive(ctx, id)
		if failure.Is(err, failure.Corrupt) {
			s.Warn("archive %s is no base: %v", id, err)
			continue
		}
		if failure.Is(err, failure.NotFound) { // forgotten meanwhile
			continue
		}
		if err != nil {
			return "", err
		}
		before := a.BackupTS <= uint64(r.manifest.BackupTS)
		better := found == "" || before && !best.before || before == best.before && a.BackupTS >= best.ts
		if better && r.sameCluster(a) {
			found, best.before, best.ts = id, before, a.BackupTS
		}
	}
	return found, nil
}

// sameCluster reports whether an archive is of the backup's cluster, by PD's id of it.
func (r *run) sameCluster(a *format.Archive) bool {
	m, err := manifest.Decode(a.Manifest.Data)
	return err == nil && m.Source.ClusterID == r.manifest.Source.ClusterID
}

// slot is a volume's place in a cluster: it has one volume at a time.
type slot struct {
	store cluster.StoreID
	role  cluster.Role
}

// name is the slot in messages.
func (s slot) String() string {
	return strings.Join([]string{"store", s.store.String(), string(s.role)}, " ")
}
