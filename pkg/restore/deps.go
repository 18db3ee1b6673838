package restore

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// EBS is what a restore needs from EC2.
type EBS = volumes.EBS

// Volume is one volume to restore and its destination.
type Volume = volumes.Volume

// TiKV is what a restore needs from the stores.
type TiKV interface {
	resolve.TiKV
	tikv.Holder
}

// PD is what a restore needs from the target's placement driver.
type PD interface {
	resolve.PD
	pd.Tasks
	pd.Settings
}

// Deps are a restore's dependencies. All are required except Sink, Log and Remains; Prepare and ResolveData need no
// Kube.
type Deps struct {
	Kube  kube.Restorer
	EBS   EBS
	TiKV  TiKV
	Store objstore.Store
	// Archive is what the backup's snapshots are made of, in place of those of its manifest; nil without one. Only Run
	// and MakePlan use it.
	Archive *fromarchive.Source
	// Fill fills volumes of a CSI driver with the archive, in place of snapshots; nil makes snapshots. With it EBS is
	// not used.
	Fill *filled.Way
	// OpenPD connects to the target's PD once it is up. The connection's owner closes it, not the restore.
	OpenPD func(ctx context.Context, addresses []string) (PD, error)
	// HandOver records the volumes that Prepare has made, for TiDB Operator, which binds them. If it fails they are
	// deleted.
	HandOver func(ctx context.Context, volumes []Volume) error
	Sink     phase.Sink
	Log      *zap.Logger
	// Remains tracks what would be left if the process ended now.
	Remains *phase.Remains
	// ExpectDuration returns, before anything is changed, how long the run should take: what to journal and what to
	// show; nil and "" if unknown. Earlier is what an earlier process of the run journalled; it is kept. Nil expects
	// nothing.
	ExpectDuration func(plan *Plan, earlier json.RawMessage) (expected json.RawMessage, text string)
}
