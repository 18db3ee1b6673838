package backup

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// resolvingPD is a PD whose resolved ts is its clock, and which answers nothing else.
type resolvingPD struct{ PD }

func (resolvingPD) ResolvedTS(context.Context) (pd.ResolvedTS, error) {
	return pd.ResolvedTS{TS: cluster.MakeTS(time.Now(), 0), RealTime: true}, nil
}

func (resolvingPD) Now(context.Context) (cluster.TS, error) {
	return cluster.MakeTS(time.Now(), 0), nil
}

func (resolvingPD) Stores(context.Context) ([]pd.Store, error) { return nil, nil }

func (resolvingPD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) {
	return nil, 0, nil
}

// A resolved ts is none to return to while GC may pass it: it becomes the backup ts only under a hold that keeps GC back.
func TestAwaitBackupTS_GCIsNotHeld_IsAConflict(t *testing.T) {
	t.Parallel()
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	reader := timestamps{pd: resolvingPD{}, opts: Options{Cluster: name, MaxHold: 2 * time.Minute}}
	h, err := hold.New(hold.Config{Cluster: name, Run: "r", Stores: []hold.Target{{ID: 1, Address: "a"}}}, resolvingPD{}, nil)
	require.NoError(t, err)
	_, err = reader.awaitUnder(t.Context(), nil, h, preflight.TSRules{MaxLag: time.Hour}, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "not at or below the backup ts")
}
