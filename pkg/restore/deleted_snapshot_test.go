package restore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// deleter deletes a snapshot when the volumes are about to be made.
type deleter struct {
	once   sync.Once
	delete func()
}

func (d *deleter) Emit(e phase.Event) {
	if e.Type == phase.StepStarted && e.Step == "create-volumes" {
		d.once.Do(d.delete)
	}
}

// A snapshot that is deleted while a restore runs is named at once, and what was made is undone.
func TestRestore_SnapshotDeletedMeanwhile_IsNamedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var gone cluster.SnapshotID
	d := &deleter{delete: func() {
		gone = l.bed.EC2.Snapshots()[0].ID
		if err := l.ebs.DeleteSnapshot(t.Context(), gone); err != nil {
			t.Errorf("delete %s: %v", gone, err)
		}
	}}
	_, err := l.restore(within(t), t, d, func(o *restore.Options) { o.Timeout = time.Hour })
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, string(gone))
	l.nothingLeft(t)
}
