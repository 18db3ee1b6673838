package sweep

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Run is what a sweep needs of the run that it is a part of. All methods are safe for concurrent use.
type Run interface {
	// Regions lists the regions of the keys with their leaders, as PD knows them.
	Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error)
	// Address is where the store is called, or "" while that is unknown.
	Address(store cluster.StoreID) string
	// CheckHeld is asked right before each call: an error is the call's.
	CheckHeld(ctx context.Context) error
	// Lost reports whether another run has, or may have, the cluster.
	Lost() bool
	// Interrupted fails when the run cannot succeed any more, whatever the sweep does.
	Interrupted() error
	// AskAgain asks the stores to elect the leaders of their regions again.
	AskAgain(stores []cluster.StoreID)
	// Resend does so for the stores that have restarted. An error ends the sweep.
	Resend(ctx context.Context) error
}

// Config is one sweep.
type Config struct {
	Cluster cluster.Name
	Verb    string // what is done to the regions, for messages
	Again   string // how a run that fails is tried again, for hints
	// Call does it to one region.
	Call func(ctx context.Context, address string, f tikv.Flashback) error
	// Flashback is what Call is given, with region and keys filled in.
	Flashback tikv.Flashback
	// Done is the keys that are done already. Those that the sweep does are added to it.
	Done *Coverage
	// Save prepares to write down what is done, in the goroutine that changes Done; the write that it returns
	// runs beside the sweep. A write that fails is repeated, but a Conflict ends the sweep.
	Save func() func(context.Context) error
	// Stall is how long nothing may change before the sweep fails.
	Stall time.Duration
	Log   *zap.Logger
}
