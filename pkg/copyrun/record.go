package copyrun

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/storage"
)

// claim takes the backup's id in the target's storage.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	return r.to.Claim(ctx, catalog.Claim{
		ID: r.opts.Backup, Run: r.opts.Run, Cluster: r.opts.Cluster, ClaimedAt: time.Now().UTC(),
	})
}

// record writes the manifest, unsealed, and before it the marks and the signed source.
func (r *run) record(ctx context.Context, s *phase.Scope) error {
	if r.earlier.sealed {
		return nil
	}
	there, err := r.to.Unsealed(ctx, r.opts.Backup)
	switch {
	case err == nil && there.Run == r.opts.Run && r.names(there):
		return nil // an earlier try wrote it
	case err == nil && there.Run == r.opts.Run: // its copies are gone
		if err := r.to.Forget(ctx, r.opts.Backup, r.opts.Run, there.BackupTS); err != nil {
			return err
		}
	case err == nil:
		return r.refuse(failure.Conflict, "there is a manifest of run %s in %s", there.Run, r.To.URL())
	case !failure.Is(err, failure.NotFound):
		return err
	}
	m, err := r.draft(ctx)
	if err != nil {
		return err
	}
	if m.Marks != nil {
		switch err := r.to.CopyMarks(ctx, r.from, m); {
		case failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt):
			m.Marks = nil // a restore does without
		case err != nil:
			return err
		}
	}
	if err := r.keepOrigin(ctx, s, m); err != nil {
		return err
	}
	return r.to.PutManifest(ctx, m)
}

// keepOrigin keeps the source with its signature, or the nearest one that was signed: what it has of that is then
// carried on.
func (r *run) keepOrigin(ctx context.Context, s *phase.Scope, m *manifest.Manifest) error {
	origin := r.found.origin
	if m.CopyOf.FirstSigned() == nil {
		return nil
	}
	if !m.CopyOf.Signed {
		var err error
		origin, err = r.from.Origin(ctx, r.found.manifest)
		if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) { // a restore does without
			s.Warn("the signature of what the backup was copied from is not kept: %v", err)
			m.CopyOf.CopyOf = m.CopyOf.CopyOf.Unsigned()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return r.to.PutOrigin(ctx, m.ID, origin)
}

// names reports whether a manifest names the copies.
func (r *run) names(m *manifest.Manifest) bool {
	made := r.progress.made
	return !slices.ContainsFunc(m.Snapshots, func(s manifest.Snapshot) bool { return made[s.CopiedFrom] != s.ID })
}

// draft is the source's manifest with the copies in place of its snapshots.
func (r *run) draft(ctx context.Context) (*manifest.Manifest, error) {
	copies, err := r.completed(ctx)
	if err != nil {
		return nil, err
	}
	from, err := storage.Read(ctx, r.From)
	if err != nil {
		return nil, err
	}
	of := r.found.manifest
	m := *of
	m.Run, m.Tool, m.Region = r.opts.Run, r.opts.Tool, r.Target.Region()
	m.CopyOf, m.Snapshots = r.copyOf(), nil
	m.CopyOf.Storage, m.CopyOf.Location = from.ID, from.Here
	for _, s := range of.Snapshots {
		made := copies[s.ID]
		s.CopiedFrom, s.ID, s.StartedAt = s.ID, made.ID, made.StartedAt.UTC()
		s.Encrypted, s.KMSKey = made.Encrypted, made.KMSKey
		m.Snapshots = append(m.Snapshots, s)
	}
	return &m, nil
}

// copyOf describes the source, except for its storage.
func (r *run) copyOf() *manifest.CopyOf {
	of, origin := r.found.manifest, r.found.origin
	return &manifest.CopyOf{
		Run: of.Run, Tool: of.Tool, Region: of.Region, Account: r.found.source[of.Snapshots[0].ID].Owner,
		ManifestSHA256: origin.SHA256(), CopyOf: of.CopyOf,
		Signed: origin.Signature != "", SignatureSHA256: origin.SignatureSHA256(),
	}
}

// completed returns the copies by their sources, and an error unless each is what it should be.
func (r *run) completed(ctx context.Context) (map[sourceID]ebs.Snapshot, error) {
	ids := make([]sourceID, 0, len(r.progress.made))
	for _, id := range r.progress.made {
		ids = append(ids, id)
	}
	found, err := r.Target.DescribeSnapshots(ctx, ids)
	if err != nil {
		return nil, failure.Annotate(err, "describe copies", string(r.opts.Backup))
	}
	byID := map[sourceID]ebs.Snapshot{}
	for _, s := range found {
		byID[s.ID] = s
	}
	out := map[sourceID]ebs.Snapshot{}
	for _, want := range r.found.manifest.Snapshots {
		got, there := byID[r.progress.made[want.ID]]
		if !there {
			return nil, r.refuse(failure.Unready, "copy %s of snapshot %s does not exist, or not yet",
				r.progress.made[want.ID], want.ID).
				WithHint("see who called DeleteSnapshot in CloudTrail; tisnap gc deletes the other copies")
		}
		if err := r.compare(want, got); err != nil {
			return nil, err
		}
		out[want.ID] = got
	}
	return out, nil
}

// compare returns Corrupt unless a copy is what was asked for. Its volume is arbitrary, so its source is known by its
// tag alone, which no one but the run sets.
func (r *run) compare(want manifest.Snapshot, got ebs.Snapshot) error {
	source, wrong := r.found.source[want.ID], ""
	switch {
	case got.State != ebs.SnapshotCompleted:
		wrong = "its state is " + string(got.State)
	case got.Tags[ebs.TagCopiedFrom] != string(want.ID):
		wrong = "it is tagged as a copy of " + got.Tags[ebs.TagCopiedFrom]
	case got.Tags[ebs.TagRun] != string(r.opts.Run):
		wrong = "it is tagged as of run " + got.Tags[ebs.TagRun]
	case got.SizeGiB != source.SizeGiB || got.SizeGiB != want.SizeGiB:
		wrong = "it is not as large as the snapshot"
	case got.FullBytes != 0 && source.FullBytes != 0 && got.FullBytes != source.FullBytes:
		wrong = "it has not as much data as the snapshot"
	case (source.Encrypted || r.opts.KMSKey != "") && !got.Encrypted:
		wrong = "it is not encrypted"
	case r.opts.KMSKey != "" && !r.chosen(got.KMSKey):
		wrong = "it is encrypted with key " + got.KMSKey
	}
	if wrong == "" {
		return nil
	}
	return failure.New(failure.Corrupt, "compare copy", string(got.ID), "of snapshot %s: %s", want.ID, wrong).
		WithHint("find out in CloudTrail who changed it; tisnap gc deletes it")
}

// chosen reports whether the ARN that EC2 reports is that of the key that the user chose. An alias that KMS did not
// resolve may be any key.
func (r *run) chosen(arn string) bool {
	if r.found.key != "" {
		return arn == r.found.key
	}
	return strings.Contains(r.opts.KMSKey, "alias/") || strings.HasSuffix(arn, "/"+r.opts.KMSKey)
}

// sealDeadline bounds the write that makes the copy restorable.
const sealDeadline = time.Minute

// seal checks once more that all copies exist as they should, and seals the manifest.
func (r *run) seal(ctx context.Context, s *phase.Scope) error {
	if r.earlier.sealed {
		return r.sealed(ctx, s)
	}
	copies, err := r.completed(ctx)
	if err != nil {
		return err
	}
	stored, err := r.to.Unsealed(ctx, r.opts.Backup)
	if err != nil {
		return err
	}
	if !r.names(stored) {
		return r.refuse(failure.Conflict, "its manifest in %s names other snapshots", r.To.URL())
	}
	var bytes int64
	for _, c := range copies {
		bytes += c.FullBytes
	}
	// From here on a cancelled run must not leave it unclear whether the seal was written.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealDeadline)
	defer cancel()
	if err := r.to.Seal(bounded, r.opts.Backup, time.Now().UTC(), bytes); err != nil {
		return err
	}
	return r.sealed(ctx, s)
}

func (r *run) sealed(context.Context, *phase.Scope) error {
	r.result.Sealed = true
	return nil
}
