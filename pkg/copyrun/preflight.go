package copyrun

import (
	"context"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// preflight finds, without changing anything, what could end the run later, and reports what it is going to do.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if objstore.Location(r.From) == objstore.Location(r.To) {
		return r.refuse(failure.Usage, "a storage has one backup of that name: its copy needs another storage").
			WithHint("choose another bucket or prefix for the copy")
	}
	if r.earlier.sealed { // only the end is left
		return r.load(ctx)
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.checkSnapshots(ctx); err != nil {
		return err
	}
	if !r.runner.Began() {
		if err := r.to.CheckFree(ctx, r.opts.Backup); err != nil {
			return err
		}
	}
	if r.found.origin.Signature != "" && r.opts.SignKey == nil {
		s.Warn("the backup is signed, and its copy will not be, so that --verify-key refuses it; --sign-key signs it")
	}
	if err := r.checkSourceKeys(ctx, s); err != nil {
		return err
	}
	if err := r.checkKey(ctx, s); err != nil {
		return err
	}
	if err := r.plan(ctx, s); err != nil {
		return err
	}
	text := r.result.Plan.Text()
	if r.Cost != nil {
		text += "; " + r.Cost(&r.result.Plan)
	}
	s.Note("%s", text)
	return r.probe(ctx)
}

func (r *run) refuse(kind failure.Kind, format string, args ...any) *failure.Error {
	return failure.New(kind, "copy backup", string(r.opts.Backup), format, args...)
}

// load reads the backup, which must be sealed and not be deleted. Once the copy is sealed it does not need it.
func (r *run) load(ctx context.Context) (err error) {
	r.found.origin, r.found.manifest, err = r.from.Document(ctx, r.opts.Backup)
	if err != nil && r.earlier.sealed {
		r.found.manifest, err = r.to.Load(ctx, r.opts.Backup)
		r.result.Manifest = r.found.manifest
		return err
	}
	if err != nil {
		return err
	}
	r.result.Manifest = r.found.manifest
	switch m := r.found.manifest; {
	case m.Source.Cluster != r.opts.Cluster:
		return r.refuse(failure.Conflict, "it is of cluster %s, not of %s", m.Source.Cluster, r.opts.Cluster)
	case m.Region != r.Source.Region():
		return r.refuse(failure.Usage, "its snapshots are in %s, not in %s", m.Region, r.Source.Region())
	case len(m.Snapshots) == 0:
		return r.refuse(failure.Corrupt, "it has no snapshot")
	}
	return nil
}

// checkSnapshots refuses a backup whose snapshots cannot all be copied, and finds out whose they are.
func (r *run) checkSnapshots(ctx context.Context) error {
	found, err := r.Source.DescribeSnapshots(ctx, r.found.manifest.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", string(r.opts.Backup))
	}
	r.found.source = map[cluster.SnapshotID]ebs.Snapshot{}
	for _, s := range found {
		r.found.source[s.ID] = s
	}
	var bad []string
	hint := "copy another backup, or make these snapshots readable: completed, in the standard tier"
	for _, want := range r.found.manifest.Snapshots {
		s, there := r.found.source[want.ID]
		switch {
		case !there:
			bad = append(bad, fmt.Sprintf("%s does not exist, or is not shared with this account", want.ID))
		case s.Archived:
			bad = append(bad, fmt.Sprintf("%s is in the archive tier", want.ID))
			hint = ebs.BackFromArchive(r.Source.Region())
		case s.Outpost != "":
			bad = append(bad, fmt.Sprintf("%s is on an Outpost", want.ID))
		case s.State != ebs.SnapshotCompleted:
			bad = append(bad, fmt.Sprintf("%s is %s", want.ID, s.State))
		}
	}
	if len(bad) > 0 {
		return r.refuse(failure.Unready, "%d of %d snapshots cannot be copied: %s", len(bad),
			len(r.found.manifest.Snapshots), failure.List(bad)).
			WithHint("%s", hint)
	}
	return r.findAccounts(ctx, found[0].Owner)
}

// findAccounts finds out whether the snapshots have to be shared.
func (r *run) findAccounts(ctx context.Context, owner string) error {
	var err error
	if r.found.account, err = r.Target.AccountID(ctx); err != nil {
		return failure.Annotate(err, "find the target's account", r.Target.Region())
	}
	own, err := r.Source.AccountID(ctx)
	if err != nil {
		return failure.Annotate(err, "find the source's account", r.Source.Region())
	}
	r.found.sharing = owner != r.found.account && owner == own
	return nil
}

// checkSourceKeys refuses a backup under a key that KMS reports as unusable: EC2 would find that out late. A role that
// may not ask KMS may still copy.
func (r *run) checkSourceKeys(ctx context.Context, s *phase.Scope) error {
	var ids []string
	for _, snapshot := range r.found.source {
		ids = append(ids, snapshot.KMSKey)
	}
	for _, key := range preflight.DescribeKeys(ctx, r.Source, ids) {
		if key.Missing {
			key.Do = "copy another backup: what this key encrypted cannot be read any more"
		}
		if !key.Known {
			s.Warn("whether EC2 can read the backup's snapshots shows when they are copied: KMS key %s could not be "+
				"checked: %s; %s", key.Name, key.State, key.Do)
		}
		if err := key.Refusal(); err != nil {
			return err
		}
	}
	return nil
}

// checkKey asks KMS about the key of the copies, and warns of one under which they may never be shared.
func (r *run) checkKey(ctx context.Context, s *phase.Scope) error {
	if r.opts.KMSKey == "" {
		if r.anyEncrypted() {
			s.Warn("the copies get the default key for EBS of account %s in %s: under %s they cannot be shared later; "+
				"--kms-key chooses another", r.found.account, r.Target.Region(), ebs.OwnKeyAlias)
		}
		return nil
	}
	key, err := r.Target.DescribeKey(ctx, r.opts.KMSKey)
	switch {
	case failure.Is(err, failure.NotFound):
		return failure.Annotate(err, "check key", r.opts.KMSKey)
	case err != nil:
		s.Note("could not ask KMS about key %s, which is checked when the copies are made: %v", r.opts.KMSKey, err)
	case key.State != ebs.KeyEnabled:
		return failure.New(failure.Unready, "check key", r.opts.KMSKey, "its state is %s", key.State).
			WithHint("enable it, or choose another by --kms-key")
	}
	r.found.key = arnOf(r.opts.KMSKey, key, err)
	return nil
}

// anyEncrypted reports whether a snapshot of the backup is encrypted.
func (r *run) anyEncrypted() bool {
	encrypted := func(id sourceID) bool { return r.found.source[id].Encrypted }
	return slices.ContainsFunc(r.found.manifest.SnapshotIDs(), encrypted)
}

// probe asks EC2 whether the target may copy. Of snapshots that are not shared yet EC2 knows nothing.
func (r *run) probe(ctx context.Context) error {
	err := r.Target.ProbeCopy(ctx, r.request(r.found.manifest.Snapshots[0]))
	if failure.Is(err, failure.NotFound) {
		if r.found.sharing {
			return nil
		}
		return failure.New(failure.Denied, "probe permission", string(r.found.manifest.Snapshots[0].ID), "%w", err).
			WithHint("share the snapshots with account %s first, or copy with the credentials of their own account",
				r.found.account)
	}
	return err
}
