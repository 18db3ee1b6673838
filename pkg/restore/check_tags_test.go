package restore_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
)

// untagger takes the run's tag off the first volume that the restore made, and keeps what the run said.
type untagger struct {
	l    *lab
	mu   sync.Mutex
	lost string
	said []string
}

func (u *untagger) Emit(e phase.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.Message != "" {
		u.said = append(u.said, e.Message)
	}
	if e.Type == phase.StepStarted && e.Step == "await-volumes" {
		for _, v := range u.l.volumes() {
			if v.Tags[ebs.TagSnapshot] != "" {
				u.lost = string(v.ID)
				_ = u.l.bed.EC2.Untag(u.lost, ebs.TagRun)
				return
			}
		}
	}
}

// A volume that lost its tag gets it back.
func TestRestore_VolumeLosesItsTag_PutBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := &untagger{l: l}
	_, err := l.restore(t.Context(), t, u, nil)
	require.NoError(t, err)
	require.NotEmpty(t, u.lost)
	require.Contains(t, strings.Join(u.said, "\n"), "volume "+u.lost+" had lost 1 of its tags: they were put back")
	for _, v := range l.volumes() {
		require.Equal(t, "restore-1", v.Tags[ebs.TagRun])
		require.Equal(t, target().String(), v.Tags[ebs.TagCluster])
	}
	require.Len(t, l.volumes(), 6)
}
