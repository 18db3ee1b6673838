package cli

import (
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
)

// earlyApplyOf returns what the backup proved about replicas ahead of their logs; nil without a manifest. A manifest
// that lacks it, or has a value unknown to this version, is unproven.
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

// restoredEarlyApply adds which such replicas the run found and what it did about them.
func restoredEarlyApply(r *restore.Result) *report.EarlyApply {
	e := earlyApplyOf(r.Manifest)
	if e != nil {
		e.Ahead, e.Rebuilt = r.Resolve.Ahead, r.Resolve.Rebuilt
	}
	return e
}
