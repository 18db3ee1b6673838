package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runner"
)

// Request returns the options that determine the restored cluster.
func (o *Options) Request() map[string]string {
	request := map[string]string{
		"volume-type": o.Volume.Type, "volume-iops": strconv.FormatInt(o.Volume.IOPS, 10),
		"volume-throughput": strconv.FormatInt(o.Volume.ThroughputMiB, 10),
		"target-az":         string(o.Zone) + zonesText(o.Zones), "kms-key": o.KMSKey,
		"encrypt":   strconv.FormatBool(o.Encrypt),
		"keep-tags": strings.Join(o.KeepTags, ","), "initialization-rate": strconv.FormatInt(o.InitializationMiB, 10),
		"fsr": strconv.FormatBool(o.FastRestore), "after-restore": o.After.Text(),
		"keep-service-settings": strconv.FormatBool(o.KeepServiceSettings), "pd-state": string(o.PDState),
		"tolerate-store": fmt.Sprint(o.TolerateStores),
		"from-manifest":  digest(o.Changes.Manifest), "patch": digest(o.Changes.Patches...),
	}
	if o.Volume.SizeGiB != 0 { // older versions did not compare it
		request["volume-size"] = strconv.FormatInt(o.Volume.SizeGiB, 10)
	}
	if o.Changes.Smallest {
		request["smallest"] = "true"
	}
	if o.Operator != "" {
		request["operator"] = o.Operator
	}
	maps.Copy(request, o.FromArchive)
	return request
}

// digest returns a short digest of the contents; empty for none.
func digest(contents ...json.RawMessage) string {
	h, some := sha256.New(), false
	for _, c := range contents {
		some = some || len(c) > 0
		fmt.Fprintf(h, "%d ", len(c))
		h.Write(c)
	}
	if !some {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

func zonesText(pairs []volumes.ZonePair) string {
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString(p.From + "=" + p.To + ",")
	}
	return b.String()
}

// resumption is how a restore is resumed.
func (r *run) resumption() *runner.Resumption {
	return &runner.Resumption{
		StartOver: r.startOver, Reset: r.startAfresh,
		Learn: func(h *phase.History, was *journal.About) error {
			r.earlier = readEarlier(h, was.Keep)
			if r.making.filler != nil {
				r.making.filler.Continue(r.earlier.Fill, h.Done(journal.StepFillVolumes))
			}
			return nil
		},
		Adopt: func(ctx context.Context, _ *phase.Scope, h *phase.History) error {
			r.making.Continue(r.earlier.volumes(), h.Began(journal.StepCreateVolumes))
			if r.making.snapshots != nil {
				r.making.snapshots.Continue(r.earlier.snapshots())
			}
			r.making.fast.Adopt(r.earlier.Fast)
			return r.target.adopt(ctx, r.backup.Manifest, &r.earlier)
		},
	}
}

// findProgress determines, in a resumed run, the cluster's state.
func (r *run) findProgress(ctx context.Context, s *phase.Scope) error {
	if !r.runner.Resumed() || !r.earlier.tikvMayRun {
		return nil
	}
	tc, err := r.target.cluster(ctx)
	if err != nil {
		return err
	}
	marked, err := r.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", r.opts.Target.String())
	}
	resolved, err := r.wasResolved(ctx)
	switch {
	case err != nil:
		return err
	case tc.RecoveryMode && marked: // since they restarted, the stores may have had no request to lead
	case resolved, !tc.RecoveryMode: // only a run with resolved data takes the cluster out of recovery mode
		r.data.found(true)
		s.Note("the data of %s are at the backup ts already", r.opts.Target)
	default:
		return failure.New(failure.Unready, "resume restore", r.opts.Target.String(),
			"PD is not marked recovering, so its stores may have elected leaders by themselves").
			WithHint("undo it with `tisnap runs abort %s`, and restore again", r.opts.Run)
	}
	return nil
}

// repeated makes a resumed run repeat all steps: their state is only in their process, and they find done what was
// done.
func repeated(groups ...[]phase.Step) []phase.Step {
	var out []phase.Step
	for _, steps := range groups {
		for _, s := range steps {
			s.Resume.Repeat = true
			out = append(out, s)
		}
	}
	return out
}

// thaw releases PD, in a resumed run also from earlier processes' holds.
func (r *run) thaw(ctx context.Context, s *phase.Scope) error {
	if r.runner.Resumed() {
		return r.thawAll(ctx, s)
	}
	return r.resolver.Thaw(ctx, s)
}
