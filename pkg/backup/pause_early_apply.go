package backup

import (
	"context"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
)

func (o PauseOptions) ignoresEarlyApply(deps PauseDeps) bool {
	return deps.EarlyApply == nil || o.EarlyApply == IgnoreEarlyApply
}

// pauseEarlyApply turns early apply off before the cluster is held, and returns the stores' old settings, also on
// error. Then it publishes what the replicas report, without which the process that cuts under this hold can prove
// nothing. A store where early apply cannot be turned off is a warning, as nothing is proven of it; with
// RequireNoEarlyApply it is an error.
func pauseEarlyApply(ctx context.Context, deps PauseDeps, o PauseOptions) ([]earlyapply.Setting, error) {
	name := o.Cluster
	if o.ignoresEarlyApply(deps) {
		return nil, nil
	}
	stores, err := earlyStores(ctx, deps.PD, name)
	if err != nil {
		return nil, err
	}
	survey := earlyapply.Read(ctx, deps.EarlyApply, stores)
	e := early{failed: survey.Failed, stores: stores, absent: survey.NotApplicable()}
	old, err := recordEarly(ctx, deps.PD, o.Run, stores, survey, nil)
	if err != nil {
		deps.Log.Warn("what early apply is turned off from is in this log only", zap.Error(err))
	}
	if len(old) > 0 {
		remainsEarly(deps.Remains, name, old)
	}
	if len(survey.On) > 0 {
		deps.Log.Info("early apply is turned off", zap.Any("was", survey.On))
		e.fail(earlyapply.TurnOff(ctx, deps.EarlyApply, stores, survey.On))
	}
	if !e.absent {
		waiting, cancel := context.WithTimeout(ctx, adoptLimit)
		defer cancel()
		regions := func(ctx context.Context) ([]cluster.Region, error) {
			return deps.PD.Regions(ctx, cluster.KeyRange{})
		}
		e.fail(earlyapply.AwaitAdopted(waiting, deps.EarlyApply, deps.TiKV, e.able(), regions))
	}
	if err := earlyApplyOn(name, e.failed); err != nil {
		if o.EarlyApply == RequireNoEarlyApply {
			return old, err
		}
		deps.Log.Warn("a restore has to look for replicas that are ahead of their raft logs", zap.Error(err))
	}
	if !e.absent {
		publish(ctx, deps, o, e.able())
	}
	return old, failure.Annotate(context.Cause(ctx), "turn off early apply", name.String())
}

// publish reads all replicas and publishes the result in PD, before the hold, so as not to prolong it. A failure is a
// warning: the hold is worth more than the proof.
func publish(ctx context.Context, deps PauseDeps, o PauseOptions, stores []earlyapply.Store) {
	ctx, cancel := context.WithTimeout(ctx, replicasLimit)
	defer cancel()
	regions, err := deps.PD.Regions(ctx, cluster.KeyRange{})
	if err == nil {
		err = earlyapply.Publish(ctx, deps.PD, o.Run, earlyapply.ReadReplicas(ctx, deps.TiKV, stores, regions))
	}
	if err != nil {
		deps.Log.Warn("a backup under this hold proves nothing of replicas that are ahead of their raft logs",
			zap.Error(err))
	}
}

// unpublish removes what the pause has published, once the cluster is released. Anything left is useless, takes some
// megabytes, and is removed by the next pause, backup or release.
func unpublish(ctx context.Context, deps PauseDeps, o PauseOptions) {
	if o.ignoresEarlyApply(deps) {
		return
	}
	if err := earlyapply.Unpublish(ctx, deps.PD, o.Run); err != nil {
		deps.Log.Warn("the replicas' states stay in PD until the next backup or tisnap release", zap.Error(err))
	}
}
