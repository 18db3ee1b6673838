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
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// EBS is what a restore needs of EC2.
type EBS = volumes.EBS

// Volume is one volume to restore, and where it goes.
type Volume = volumes.Volume

// TiKV is what a restore needs of the stores.
type TiKV interface {
	resolve.TiKV
	tikv.Holder
}

// PD is what a restore needs of the target's placement driver.
type PD interface {
	resolve.PD
	pd.Tasks
	pd.Settings
}

// Deps are the systems around a restore. All are required but Sink, Log and Remains; Prepare and ResolveData need no
// Kube.
type Deps struct {
	Kube  kube.Restorer
	EBS   EBS
	TiKV  TiKV
	Store objstore.Store
	// OpenPD connects to the target's PD once it is up. The restore closes nothing: the opener's owner does.
	OpenPD func(ctx context.Context, addresses []string) (PD, error)
	// HandOver gets the volumes that Prepare has made, to write down for who binds them. If it fails they are deleted.
	HandOver func(ctx context.Context, volumes []Volume) error
	Sink     phase.Sink
	Log      *zap.Logger
	// Remains learns what would be left if the process ended at any moment.
	Remains *phase.Remains
	// Announce is asked, before anything is changed, how long the run should take: what to journal of it, and what to
	// say; nil and "" if that is not known. Earlier is what an earlier process of the run has journalled; it stays as
	// it is. Nil announces nothing.
	Announce func(plan *Plan, earlier json.RawMessage) (expected json.RawMessage, text string)
}
