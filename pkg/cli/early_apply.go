package cli

import (
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
)

// earlyApplyOf is what the backup proved about replicas that are ahead of their logs; nil without a manifest. One that
// says nothing, or what this version does not know, is unproven.
func earlyApplyOf(m *manifest.Manifest) *report.EarlyApply {
	switch {
	case m == nil:
		return nil
	case m.EarlyApply == nil:
		return &report.EarlyApply{State: string(manifest.EarlyApplyUnproven)}
	case m.EarlyApplyRuledOut():
		return &report.EarlyApply{State: string(m.EarlyApply.State)}
	}
	return &report.EarlyApply{
		State: string(manifest.EarlyApplyUnproven), Stores: len(m.EarlyApply.Stores),
		Regions: len(m.EarlyApply.Regions),
	}
}

// restoredEarlyApply is also what the run found of them and did about them.
func restoredEarlyApply(r *restore.Result) *report.EarlyApply {
	e := earlyApplyOf(r.Manifest)
	if e != nil {
		e.Ahead, e.Rebuilt = r.Resolve.Ahead, r.Resolve.Rebuilt
	}
	return e
}
