package adopt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/storage"
)

// Source is where a part is.
type Source struct {
	Name  string // of its Kubernetes cluster, as the user calls it
	Store objstore.Store
}

// EC2 is EC2 where the parts' snapshots are.
type EC2 interface {
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
}

// Options are what the user chose.
type Options struct {
	Backup cluster.BackupID
	Parts  []Source
	Tool   string
	// OpenEC2 connects to EC2 in the region of the parts' snapshots.
	OpenEC2 func(ctx context.Context, region string) (EC2, error)
	// VerifyKey must have signed every part; nil accepts any. SignKey signs the whole; nil does not.
	VerifyKey *manifest.VerifyKey
	SignKey   *manifest.SigningKey
	// DryRun checks, and changes nothing.
	DryRun bool
}

// Result is the backup that was made, or would be.
type Result struct {
	Manifest *manifest.Manifest
	// SealedAt is when the last part was sealed.
	SealedAt time.Time
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest; 0 if EC2 does not report it.
	DataBytes, LargestBytes int64
}

// sealDeadline bounds the write that makes the backup restorable.
const sealDeadline = time.Minute

// Adopt makes the parts one backup in a storage. It reads the parts, asks EC2 for every
// snapshot, pins each part in its own storage, so that what the backup needs is not deleted there, and seals the
// manifest last. It is idempotent: after an error or a kill the same call finishes it. What it refuses it refuses
// before the first change: parts of different holds or clusters (Conflict), a store that is missing (Unready) or in two
// parts (Conflict), a snapshot that is gone or not completed (Unready), and a name that is taken (Conflict).
func Adopt(ctx context.Context, store objstore.Store, o Options) (*Result, error) {
	if len(o.Parts) < 2 {
		return nil, failure.New(failure.Usage, "adopt parts", string(o.Backup), "one part is a backup by itself").
			WithHint("name the storage of each Kubernetes cluster with --part")
	}
	parts, err := readParts(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := check(parts); err != nil {
		return nil, err
	}
	m, err := merge(o.Backup, runOf(parts), o.Tool, parts)
	if err != nil {
		return nil, err
	}
	result := &Result{Manifest: m}
	for _, p := range parts {
		if p.of.SealedAt.After(result.SealedAt) {
			result.SealedAt = p.of.SealedAt
		}
	}
	ec2, err := o.OpenEC2(ctx, m.Region)
	if err != nil {
		return nil, err
	}
	if err := result.checkSnapshots(ctx, ec2); err != nil {
		return nil, err
	}
	made := catalog.Catalog{Store: store, SignKey: o.SignKey}
	if err := result.begun(ctx, made); err != nil || o.DryRun || !result.Manifest.SealedAt.IsZero() {
		return result, err
	}
	m = result.Manifest
	if err := pin(ctx, store, m, o.Parts); err != nil {
		return nil, err
	}
	claim := catalog.Claim{ID: m.ID, Run: m.Run, Cluster: m.Source.Cluster, ClaimedAt: time.Now().UTC()}
	if err := made.Claim(ctx, claim); err != nil {
		return nil, err
	}
	if err := made.PutManifest(ctx, m); err != nil {
		return nil, err
	}
	// From here on a cancelled process must not leave it unclear whether the seal was written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealDeadline)
	defer cancel()
	return result, made.Seal(ctx, m.ID, time.Now().UTC(), result.DataBytes)
}

// readParts reads each part with what identifies it.
func readParts(ctx context.Context, o Options) ([]part, error) {
	parts := make([]part, len(o.Parts))
	for i, from := range o.Parts {
		p, err := readPart(ctx, from, o.VerifyKey)
		if err != nil {
			return nil, failure.Annotate(err, "read part", from.Name)
		}
		parts[i] = p
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.Name, b.Name) })
	return parts, nil
}

func readPart(ctx context.Context, from Source, key *manifest.VerifyKey) (part, error) {
	c := catalog.Catalog{Store: from.Store, VerifyKey: key}
	br, err := c.LoadBR(ctx)
	if failure.Is(err, failure.NotFound) {
		return part{}, failure.New(failure.NotFound, "", "", "%w", err).
			WithHint("check that the URL is the storage of a completed Backup: the VolumeBackup's, and -NAME of its " +
				"Kubernetes cluster")
	}
	if err != nil {
		return part{}, err
	}
	own, err := c.LoadOwn(ctx, br.BackupTS)
	switch {
	case err != nil:
		return part{}, err
	case own == nil:
		return part{}, failure.New(failure.Usage, "", "", "it was made by PingCAP's br, which records no hold").
			WithHint("take a VolumeBackup with this program's br")
	}
	doc, m, err := c.Document(ctx, own.ID)
	if err != nil {
		return part{}, err
	}
	at, err := storage.Read(ctx, from.Store)
	if err != nil {
		return part{}, err
	}
	if err := at.RefuseCopy("adopt"); err != nil {
		return part{}, err
	}
	p := part{of: m, Part: manifest.Part{
		Name: from.Name, Cluster: m.Source.Cluster, Backup: m.ID, Run: m.Run, Tool: m.Tool, Storage: at.ID,
		Location: at.Here, BackupTS: m.BackupTS, ManifestSHA256: doc.SHA256(), Kubernetes: m.Kubernetes,
	}}
	for _, s := range m.Source.Stores {
		p.Stores = append(p.Stores, s.ID)
	}
	slices.Sort(p.Stores)
	return p, nil
}

// runOf identifies the adoption of these parts, so that the same call continues it.
func runOf(parts []part) cluster.RunID {
	digests := make([]string, len(parts))
	for i, p := range parts {
		digests[i] = p.ManifestSHA256
	}
	slices.Sort(digests)
	h := sha256.New()
	for _, d := range digests {
		h.Write([]byte(d))
	}
	return cluster.RunID("adopt-" + hex.EncodeToString(h.Sum(nil)[:8]))
}

// checkSnapshots measures the snapshots, and returns Unready unless EC2 has each, completed.
func (r *Result) checkSnapshots(ctx context.Context, ec2 EC2) error {
	m := r.Manifest
	found, err := ec2.DescribeSnapshots(ctx, m.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", string(m.ID))
	}
	byID := map[cluster.SnapshotID]ebs.Snapshot{}
	for _, s := range found {
		byID[s.ID] = s
	}
	var bad []string
	measured := true
	for _, want := range m.Snapshots {
		got, there := byID[want.ID]
		switch {
		case !there:
			bad = append(bad, string(want.ID)+" does not exist")
		case got.State != ebs.SnapshotCompleted:
			bad = append(bad, string(want.ID)+" is "+string(got.State))
		case got.Volume != want.Volume:
			bad = append(bad, string(want.ID)+" is of volume "+string(got.Volume))
		}
		r.DataBytes += got.FullBytes
		r.LargestBytes = max(r.LargestBytes, got.FullBytes)
		measured = measured && got.FullBytes > 0
	}
	if len(bad) > 0 {
		return failure.New(failure.Unready, "adopt parts", string(m.ID), "%d of %d snapshots cannot be restored: %s",
			len(bad), len(m.Snapshots), failure.List(bad)).
			WithHint("adopt the parts of another VolumeBackup")
	}
	if !measured {
		r.DataBytes, r.LargestBytes = 0, 0
	}
	return nil
}

// begun takes over what an earlier call wrote of the backup, sealed or not. It returns a Conflict if another backup has
// the name, and Corrupt if it is sealed without the signature that is asked for.
func (r *Result) begun(ctx context.Context, c catalog.Catalog) error {
	run, err := c.RunOf(ctx, r.Manifest.ID)
	if err != nil || run != r.Manifest.Run {
		return c.CheckFree(ctx, r.Manifest.ID)
	}
	c.VerifyKey = c.SignKey.VerifyKey()
	stored, err := c.Load(ctx, r.Manifest.ID)
	if failure.Is(err, failure.Unready) {
		stored, err = c.Unsealed(ctx, r.Manifest.ID)
	}
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	}
	r.Manifest = stored
	return nil
}

// pin pins each part in its storage, unless it is pinned without an end already.
func pin(ctx context.Context, store objstore.Store, m *manifest.Manifest, from []Source) error {
	reason := "part of backup " + string(m.ID) + " in " + objstore.Location(store)
	for _, p := range m.Parts {
		i := slices.IndexFunc(from, func(s Source) bool { return s.Name == p.Name })
		c := catalog.Catalog{Store: from[i].Store}
		held, err := c.PinOf(ctx, p.Backup, p.Run)
		if err == nil && (held == nil || !held.Until.IsZero()) {
			_, err = c.Pin(ctx, catalog.PinRequest{Backup: p.Backup, Reason: reason})
		}
		if err != nil {
			return failure.Annotate(err, "pin part", p.Name)
		}
	}
	return nil
}
