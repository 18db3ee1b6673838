package restore_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// untagger takes the run's tag off the first volume that the restore made, and keeps the run's messages.
type untagger struct {
	l        *lab
	mu       sync.Mutex
	lost     string
	messages []string
}

func (u *untagger) Emit(e phase.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.Message != "" {
		u.messages = append(u.messages, e.Message)
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

// untaggable is an EC2 that refuses tags on what exists.
type untaggable struct{ restore.EBS }

func (untaggable) PutTags(_ context.Context, resources []string, _ ebs.Tags) error {
	return failure.New(failure.Denied, "put tags", resources[0], "UnauthorizedOperation").WithHint("grant ec2:CreateTags")
}

// Point 31: a volume without its tags that may not be put back is named, with what to grant: gc finds volumes by tags alone.
func TestTagsOfAVolumeMayNotBePutBack_TheVolumeIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.wrap = func(e restore.EBS) restore.EBS { return untaggable{e} }
	u := &untagger{l: l}
	result, err := l.restore(t.Context(), t, u, nil)
	require.NoError(t, err)
	require.True(t, result.Restored, "it is as good without")
	require.NotEmpty(t, u.lost)
	messages := strings.Join(u.messages, "\n")
	require.Contains(t, messages, "volume "+u.lost+" lacks 1 tags, by which tisnap gc finds it, and they cannot be added (grant ec2:CreateTags): ")
	require.NotContains(t, messages, "they were restored")
}

// A volume that lost its tag gets it back.
func TestRestore_VolumeLosesItsTag_PutBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	u := &untagger{l: l}
	_, err := l.restore(t.Context(), t, u, nil)
	require.NoError(t, err)
	require.NotEmpty(t, u.lost)
	require.Contains(t, strings.Join(u.messages, "\n"), "volume "+u.lost+" had lost 1 of its tags: they were restored")
	for _, v := range l.volumes() {
		require.Equal(t, "restore-1", v.Tags[ebs.TagRun])
		require.Equal(t, target().String(), v.Tags[ebs.TagCluster])
	}
	require.Len(t, l.volumes(), 6)
}
