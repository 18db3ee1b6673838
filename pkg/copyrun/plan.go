package copyrun

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Plan is what a run is going to do.
type Plan struct {
	copyplan.Plan
	FromRegion, ToRegion string
	Account              string // the target's
	Share                bool   // the source's snapshots are shared with it meanwhile
	// Others is how many copies tisnap's other runs have under way into the region: of EC2's slots these are taken.
	Others int
	// Least is the shortest time that the throughput between the regions allows, and AllChanged is that if every block
	// has changed.
	Least, AllChanged time.Duration
	// Each is the duration that is asked for each copy, so that all are done in the time that the user chose; 0
	// without.
	Each time.Duration
}

// Text describes what is copied, and why how much.
func (p *Plan) Text() string {
	full := 0
	why := map[copyplan.Reason]bool{}
	for _, c := range p.Copies {
		if c.Full != copyplan.Incremental {
			full++
			why[c.Full] = true
		}
	}
	text := fmt.Sprintf("copying %d snapshots from %s to %s of account %s", len(p.Copies), p.FromRegion, p.ToRegion,
		p.Account)
	if full > 0 {
		text += fmt.Sprintf("; %d in full, %.1f GiB", full, gib(p.FullBytes))
		for _, reason := range []copyplan.Reason{
			copyplan.First, copyplan.Deleted, copyplan.Archived, copyplan.OtherKey, copyplan.UnknownKey,
		} {
			if why[reason] {
				text += " (" + string(reason) + ")"
			}
		}
	}
	if p.Others > 0 {
		text += fmt.Sprintf("; other runs have %d of EC2's %d slots for copies", p.Others, copyplan.Slots)
	}
	if n := len(p.Copies) - full; n > 0 {
		text += fmt.Sprintf("; %d incrementally, of %.1f GiB only what has changed", n, gib(p.ChangedBytes))
	}
	return text
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// Estimate returns what a copy would do, after all checks, and changes nothing.
func Estimate(ctx context.Context, deps Deps, opts Options) (*Plan, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	r := newRun(deps, opts)
	err := r.runner.Check(ctx, r.preflightStep(), r.runner.StorageStep(phasePrepare))
	return &r.result.Plan, err
}

// plan orders and sizes the copies. A duration in which EC2 cannot complete them is refused.
func (r *run) plan(ctx context.Context, s *phase.Scope) error {
	before, others, err := r.before(ctx, s)
	if err != nil {
		return err
	}
	keyOf := r.keys(ctx, s, len(before) > 0)
	var all []copyplan.Snapshot
	for _, m := range r.found.manifest.Snapshots {
		bytes := cmp.Or(r.found.source[m.ID].FullBytes, m.SizeGiB<<30)
		key, known := keyOf(r.found.source[m.ID])
		all = append(all, copyplan.Snapshot{ID: m.ID, Volume: m.Volume, Bytes: bytes, Key: key, KeyUnknown: !known})
	}
	p := copyplan.Make(all, before)
	r.result.Plan = Plan{
		Plan: p, FromRegion: r.Source.Region(), ToRegion: r.Target.Region(),
		Account: r.found.account, Share: r.found.sharing, Others: others,
	}
	pair := int64(copyplan.RateOfPair)
	switch quotas, err := r.Target.Quotas(ctx); {
	case err != nil:
		s.Note("the quotas of account %s are unknown: AWS's defaults count: %v", r.found.account, err)
	case quotas.CopyRate > 0:
		pair = quotas.CopyRate
	}
	r.result.Plan.Least, r.result.Plan.AllChanged = p.Least(pair), p.AllChanged(pair)
	if r.opts.Within == 0 {
		return nil
	}
	if err := p.CheckWithin(r.opts.Within, pair); err != nil {
		return err
	}
	each, err := p.Each(r.opts.Within, pair)
	r.result.Plan.Each = each
	return err
}
