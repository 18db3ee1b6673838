package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// exchangeDeadline is for the exchange of all filled volumes: each is detached from the node of its Job first.
const exchangeDeadline = 30 * time.Minute

// fillSteps fill volumes of a CSI driver before anything else is made, which may wait for them for hours; none without
// one.
func (r *run) fillSteps() []phase.Step {
	if r.Fill == nil {
		return nil
	}
	return []phase.Step{{
		Phase: phaseFill, Name: journal.StepFillVolumes, Deadline: filled.Deadline, Do: r.fillVolumes,
		Undo:   phase.Undo{Do: r.removeFilled, Deadline: r.opts.Timeout, Kept: r.making.filler.Kept()},
		Resume: phase.Resumption{State: &r.making.filled, Adopted: r.adoptFilled},
	}}
}

// fillVolumes makes an empty block volume for each archived one, by a claim, and fills those of each store by a Job.
func (r *run) fillVolumes(ctx context.Context, s *phase.Scope) error {
	return r.making.fillVolumes(ctx, s, r.backup.Manifest)
}

func (m *making) fillVolumes(ctx context.Context, s *phase.Scope, of *manifest.Manifest) (err error) {
	if m.filled, err = m.filler.Fill(ctx, s, of); err != nil {
		return err
	}
	return m.takeFilled()
}

// adoptFilled takes over the volumes that an earlier process filled.
func (r *run) adoptFilled(_ context.Context, s *phase.Scope) error {
	s.Note("%d volumes are filled already", len(r.making.filled))
	return r.making.takeFilled()
}

// takeFilled gives the planned volumes those that were filled with them.
func (m *making) takeFilled() error {
	of, err := m.filled.BySnapshot(m.Plan())
	if err != nil {
		return err
	}
	m.Fill(func(v Volume) (cluster.VolumeID, kube.FilledClaim) {
		one := of[v.Snapshot]
		return one.Planned(v.Filled)
	})
	return nil
}

// removeFilled removes the run's Jobs, claims and volumes, except for those that the target's claims have by now.
func (r *run) removeFilled(ctx context.Context, s *phase.Scope) error {
	switch {
	case r.keeps():
		s.Note("%s", r.making.filler.Kept())
		return nil
	case r.target.bound:
		s.Warn("%s: claims of %s, which is kept, are bound to them", r.making.filler.Kept(), r.opts.Target)
		return nil
	}
	return r.making.filler.Delete(ctx, s)
}

// planFilled plans the volumes by the target's StorageClasses and zones.
func (r *run) planFilled(ctx context.Context) (volumes.Plan, error) {
	plan, err := r.making.filler.Plan(ctx, r.backup.Manifest, filled.Zones{All: r.opts.Zone, Pairs: r.opts.Zones},
		func(plan volumes.Plan) ([]podnodes.Rules, error) {
			return r.target.nodeRules(ctx, r.backup.objects, plan, len(r.backup.Source.Stores))
		})
	r.making.Begin(plan)
	return plan, err
}

// preflightFilled checks the volumes' classes, zones and permissions, and the target, without EC2.
func (r *run) preflightFilled(ctx context.Context, s *phase.Scope) error {
	var err error
	if r.runner.Resumed() {
		err = r.target.find(ctx, r.backup.Manifest, &r.earlier)
	} else {
		err = r.target.check(ctx, r.backup.Manifest)
	}
	if err != nil {
		return err
	}
	plan, err := r.planFilled(ctx)
	if err != nil {
		return err
	}
	plan, dropped, err := r.nameVolumes(plan)
	if err != nil {
		return err
	}
	r.making.Begin(plan)
	if r.runner.Resumed() {
		return nil
	}
	if err := r.making.filler.Check(ctx); err != nil {
		return err
	}
	return r.checkKubernetes(ctx, s, plan, dropped)
}

// madeVolumes is the step after which volumes may exist.
func (r *run) madeVolumes() string {
	if r.Fill != nil {
		return journal.StepFillVolumes
	}
	return journal.StepCreateVolumes
}

// region is where EC2 makes the volumes; "" without EC2.
func (r *run) region() string {
	if r.EBS == nil {
		return ""
	}
	return r.EBS.Region()
}

// checkWay refuses what only EC2 can do to volumes that it does not make.
func (r *run) checkWay() error {
	if r.Fill == nil {
		return nil
	}
	o := &r.opts
	if o.Volume == (cluster.VolumeSpec{}) && o.After == (cluster.VolumeSpec{}) && o.KMSKey == "" && !o.Encrypt &&
		o.InitializationMiB == 0 && !o.FastRestore && len(o.KeepTags) == 0 && len(o.Tags) == 0 && o.Account == "" {
		return nil
	}
	return failure.New(failure.Usage, "plan volumes", o.Target.String(),
		"options of EBS volumes have no effect on volumes that a CSI driver makes").
		WithHint("name a StorageClass of such volumes by --storage-class")
}
