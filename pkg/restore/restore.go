package restore

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Run restores the backup. The error's kind decides what the caller can do.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts, byRun)
	about := journal.About{
		Operation: journal.Restore, Keep: opts.KeepOnFailure, Request: r.opts.Request(), Chosen: opts.Chosen,
	}
	r.identify(ctx, &about)
	err := r.execute(ctx, about, r.restoreSteps(), r.resumption())
	return &r.result, r.conclude(err)
}

// identify notes in which Kubernetes cluster the target is: names and URLs are alike in many. A restore does not need
// it where it cannot be read; gc then keeps more, and the run is continued only if it is named.
func (r *run) identify(ctx context.Context, about *journal.About) {
	uid, err := r.target.identify(ctx)
	if err != nil {
		r.Log.Warn("could not read the uid of the Kubernetes cluster", zap.Error(err))
	}
	about.Kubernetes, about.KubernetesUID = r.opts.Kubernetes, uid
}

// Plan is what a restore would do.
type Plan struct {
	Manifest *manifest.Manifest
	Volumes  []Volume
	Region   string
	Account  string
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 where EC2 does not report it.
	DataBytes, LargestBytes int64
	// InitializationMiB is the rate of each volume, Waves in how many groups they go; 0 and 1 without one.
	InitializationMiB int64
	Waves             int
	// MarkedShare is how many of the regions, 0 to 1, need no flashback if nothing was written to them: see
	// MarkedShare. It is 0 for a target that exists, whose TiDB servers may run meanwhile.
	MarkedShare float64
	// TidbCluster is the object that the run would make, as YAML; nil for a target that exists.
	TidbCluster []byte
}

// MakePlan does the checks of a restore and nothing else, for a dry run.
func MakePlan(ctx context.Context, deps Deps, opts Options) (*Plan, error) {
	r := newRun(deps, opts, byRun)
	if err := r.runner.Check(ctx,
		append([]phase.Step{r.runner.StorageStep(phaseData)}, r.checkSteps()...)...); err != nil {
		return nil, err
	}
	var object []byte
	if !r.target.existing {
		var err error
		plan := r.making.Plan()
		if object, err = kube.TargetManifest(r.backup.objects, r.target.asTarget(plan, len(r.backup.Source.Stores)),
			r.target.planned(plan.Volumes)); err != nil {
			return nil, err
		}
	}
	plan := r.plan()
	plan.TidbCluster = object
	return plan, nil
}

// plan is what the checks have found.
func (r *run) plan() *Plan {
	planned := r.making.Plan()
	return &Plan{
		Manifest: r.backup.Manifest, Volumes: planned.Volumes, Region: r.region(), Account: r.result.Account,
		DataBytes: planned.DataBytes, LargestBytes: planned.LargestBytes,
		InitializationMiB: planned.InitializationMiB(), Waves: planned.Waves(),
		MarkedShare: r.markedShare(),
	}
}

// expectDuration estimates how long the run takes.
func (r *run) expectDuration(s *phase.Scope) {
	if r.ExpectDuration != nil {
		r.runner.ExpectDuration(s,
			func(earlier json.RawMessage) (json.RawMessage, string) { return r.ExpectDuration(r.plan(), earlier) })
	}
}
