package backup

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

// askingEC2 asks before it cuts, as the adapter does.
type askingEC2 struct {
	ebs.Snapshots
	ebs.Tagger
}

func (askingEC2) Cut(ctx context.Context, _ ebs.CutRequest) ([]ebs.Snapshot, error) {
	return nil, fenced.Check(ctx)
}

// The step of the cut asks for no lock before it begins: a held cluster does not wait for object storage.
func TestCutStore_LockIsNotTrusted_CutsNothing(t *testing.T) {
	t.Parallel()
	untrusted := failure.New(failure.Conflict, "check lock", "tidb/prod", "it was not renewed")
	c := &cutter{ebs: askingEC2{}, current: func() error { return untrusted }}
	require.ErrorIs(t, c.cutStore(t.Context(), 1, ebs.CutRequest{}, newSets()), untrusted)
}
