package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// Types are the volume types that a user may choose, the same as br's. The source's type is kept whatever it is.
func Types() []string { return []string{"gp3", "io1", "io2"} }

// Options are what the user chose about the volumes.
type Options struct {
	Spec              cluster.VolumeSpec // empty fields keep the source's
	Zone              cluster.Zone       // for all; empty keeps each volume's zone, or maps it by Zones
	Zones             []ZonePair
	KMSKey            string // empty keeps each snapshot's key
	Encrypt           bool   // also volumes of unencrypted snapshots, with the account's default key
	Scope             Scope
	KeepTags          []string           // of the snapshots
	Tags              ebs.Tags           // besides tisnap's own
	InitializationMiB int64              // maximum MiB/s at which EC2 initializes each volume; 0 initializes on read
	FastRestore       bool               // fast snapshot restore while the volumes are made
	After             cluster.VolumeSpec // once the cluster serves; the zero value changes nothing
	Account           string             // that the restore must run in; empty accepts any
	// TiDB Operator binds the volumes: they get br's tags, and no names of PVs
	BR         bool
	Timeout    time.Duration    // of each wait
	Visibility time.Duration    // how long EC2 may hide a volume that exists
	Poll       time.Duration    // how often EC2 is polled
	Now        func() time.Time // compared with EC2's times
}

// Planner plans a restore's volumes and checks for refusals. It changes nothing.
type Planner struct {
	EC2      EBS
	Manifest *manifest.Manifest
	Options  Options
	// FromArchive means that the snapshots are made of an archive, not of the manifest's volumes, and may not exist
	// yet.
	FromArchive bool
}

// Plan is a restore's volumes, in the order of the target's pods.
type Plan struct {
	Volumes []Volume
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 if EC2 does not report it.
	DataBytes, LargestBytes int64

	fill fill
}

// clone returns a plan whose volumes may be changed.
func (p Plan) clone() Plan {
	p.Volumes = slices.Clone(p.Volumes)
	return p
}

// Named returns the plan with the volumes' names in Kubernetes, in the order of the volumes.
func (p Plan) Named(names []kube.Names) Plan {
	p = p.clone()
	for i := range names {
		p.Volumes[i].Names = names[i]
	}
	return p
}

// InitializationMiB returns the rate at which EC2 initializes each volume, in MiB/s; 0 without one.
func (p Plan) InitializationMiB() int64 { return p.fill.rate }

// Waves returns the number of waves in which the volumes are made; 1 without a rate.
func (p Plan) Waves() int { return p.fill.waves(len(p.Volumes)) }

// SizesGiB maps mount paths to the largest size of their volumes.
func (p Plan) SizesGiB() map[string]int64 {
	sizes := map[string]int64{}
	for _, v := range p.Volumes {
		sizes[v.Mount] = max(sizes[v.Mount], v.Spec.SizeGiB)
	}
	return sizes
}

// CheckAccount checks the account and region of the volumes before anything is requested there. It returns the
// account's number, if known, also on error.
func (p Planner) CheckAccount(ctx context.Context) (account string, err error) {
	account, err = p.EC2.AccountID(ctx)
	if err != nil {
		return "", failure.Annotate(err, "check account", p.EC2.Region())
	}
	if p.Options.Account != "" && p.Options.Account != account {
		return account, failure.New(failure.Usage, "check account", account, "the restore is to be made in account %s",
			p.Options.Account).
			WithHint("use the credentials of account %s (--profile), or another --account", p.Options.Account)
	}
	if p.Manifest.Region != p.EC2.Region() {
		return account, failure.New(failure.Unready, "check region", p.EC2.Region(), "the snapshots are in %s",
			p.Manifest.Region).
			WithHint("restore with --region %s", p.Manifest.Region)
	}
	return account, checkKey(p.Options.KMSKey, p.EC2.Region())
}

// checkKey refuses a key that EC2 cannot use here: a volume with such a key is accepted and then vanishes.
func checkKey(key, region string) error {
	parts := strings.Split(key, ":")
	if key == "" || parts[0] != "arn" {
		return nil
	}
	if len(parts) < 6 || parts[2] != "kms" {
		return failure.New(failure.Usage, "check KMS key", key, "it is not the ARN of a key").
			WithHint("name a key id, an alias (alias/NAME) or an ARN (arn:aws:kms:REGION:ACCOUNT:key/ID)")
	}
	if parts[3] != region {
		return failure.New(failure.Usage, "check KMS key", key, "it is in %s, and the volumes will be in %s", parts[3],
			region).
			WithHint("name a key of %s", region)
	}
	return nil
}

// Plan plans the volumes, their zones, and their later profile.
func (p Planner) Plan(ctx context.Context) (Plan, error) {
	var plan Plan
	ids, err := p.EC2.ZoneIDs(ctx)
	if err != nil {
		return plan, failure.Annotate(err, "list zones", p.EC2.Region())
	}
	source := zoneSet{}
	for _, snap := range p.Manifest.Snapshots {
		source[snap.Zone] = p.Manifest.ZoneIDs[snap.Zone]
	}
	zones, err := mapZones(source, p.Options.Zone, p.Options.Zones, ids)
	if err != nil {
		return plan, err
	}
	if plan.Volumes, err = planVolumes(p.Manifest, p.Options.Spec, p.Options.KMSKey, zones); err != nil {
		return plan, err
	}
	plan.Volumes = p.Options.Scope.of(plan.Volumes)
	if len(plan.Volumes) == 0 {
		return plan, failure.New(failure.Usage, "plan volumes", string(p.Manifest.ID),
			"the backup has no volume of the scope that is asked for").
			WithHint("leave --volume-scope out")
	}
	if err := checkRate(p.Options.InitializationMiB); err != nil {
		return plan, err
	}
	plan.fill = planFill(p.Options.InitializationMiB, len(plan.Volumes))
	return plan, planAfter(plan.Volumes, p.Options.After)
}

// CheckSnapshots checks that every snapshot exists, is completed and matches the manifest, and returns the plan with
// what EC2 knows about them, also on error.
func (p Planner) CheckSnapshots(ctx context.Context, plan Plan) (Plan, error) {
	found, err := p.EC2.DescribeSnapshots(ctx, p.Manifest.SnapshotIDs())
	if err != nil {
		return plan, failure.Annotate(err, "describe snapshots", string(p.Manifest.ID))
	}
	state := map[cluster.SnapshotID]ebs.Snapshot{}
	plan = plan.clone()
	plan.DataBytes, plan.LargestBytes = 0, 0
	for _, snap := range found {
		state[snap.ID] = snap
		plan.DataBytes += snap.FullBytes
		plan.LargestBytes = max(plan.LargestBytes, snap.FullBytes)
	}
	var bad []string
	for _, want := range p.Manifest.Snapshots {
		snap, ok := state[want.ID]
		switch {
		case !ok:
			bad = append(bad, fmt.Sprintf("%s is gone", want.ID))
		case snap.State != ebs.SnapshotCompleted:
			bad = append(bad, fmt.Sprintf("%s is %s", want.ID, snap.State))
		default:
			if p.FromArchive {
				snap.Volume = "" // EC2 reports an arbitrary one
			}
			bad = append(bad, contradictions(p.Manifest, want, snap)...)
		}
	}
	for i := range plan.Volumes {
		v := &plan.Volumes[i]
		v.source = state[v.Snapshot]
		v.encrypt = p.Options.Encrypt && !v.source.Encrypted
		v.Encrypted = v.Encrypted || v.encrypt
	}
	if len(bad) > 0 {
		return plan, failure.New(failure.Corrupt, "check snapshots", string(p.Manifest.ID), "%s",
			strings.Join(bad, ", ")).
			WithHint("restore another backup")
	}
	if err := onOutpost(p.Manifest, state); err != nil {
		return plan, err
	}
	return plan, archived(p.Manifest, state)
}

// WithoutSnapshots returns the plan with the sizes of an archive whose snapshots are not made yet.
func (p Planner) WithoutSnapshots(plan Plan, dataBytes, largestBytes int64) Plan {
	plan = plan.clone()
	plan.DataBytes, plan.LargestBytes = dataBytes, largestBytes
	for i := range plan.Volumes {
		plan.Volumes[i].Encrypted = plan.Volumes[i].Encrypted || p.Options.Encrypt
	}
	return plan
}

// CheckKeys refuses a KMS key that EC2 could not encrypt the volumes with. If the role may not read a key's state, EC2
// decides later.
func (p Planner) CheckKeys(ctx context.Context, s *phase.Scope, plan Plan) error {
	var ids []string
	for _, v := range plan.Volumes {
		if v.Encrypted {
			ids = append(ids, v.KMSKey)
		}
	}
	for _, key := range preflight.DescribeKeys(ctx, p.EC2, ids) {
		if err := key.Refusal(); err != nil {
			return err
		}
		if !key.Known {
			s.Note("KMS key %s could not be checked: %s", key.Name, key.State)
		}
	}
	return nil
}

// Probe asks EC2, by a dry run, whether a volume may be made, and notes what will be made.
func (p Planner) Probe(ctx context.Context, s *phase.Scope, plan Plan, account string) error {
	v := plan.Volumes[0]
	snapshot := v.Snapshot
	if p.FromArchive {
		snapshot = ""
	}
	if err := p.EC2.Probe(ctx, ebs.ActionCreateVolume, string(snapshot), v.Zone); err != nil {
		return failure.Annotate(err, "check permissions", string(v.Snapshot))
	}
	s.Note("%d volumes of %s, %d IOPS, %d MiB/s, in account %s", len(plan.Volumes), v.Spec.Type, v.Spec.IOPS,
		v.Spec.ThroughputMiB, account)
	if plan.fill.rate > 0 {
		s.Note("EC2 fills them at %d MiB/s each, in %d wave(s): about %s", plan.fill.rate,
			plan.fill.waves(len(plan.Volumes)),
			time.Duration(plan.fill.seconds(len(plan.Volumes), plan.LargestBytes)*float64(time.Second)).
				Round(time.Second))
	}
	return nil
}
