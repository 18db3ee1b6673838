package cage_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/wait"
)

// timed is a Prober whose first answer takes a while, and whose network begins to enforce policies after another.
type timed struct {
	pull, enforces time.Duration
	begin          time.Time
	removal        error
	removed        []string
}

func (p *timed) Listen(_ context.Context, namespace, _ string) (string, error) { return namespace, nil }

func (p *timed) Connect(ctx context.Context, namespace, _, address string) (bool, error) {
	if err := wait.For(ctx, p.pull); err != nil {
		return false, err
	}
	p.pull = 0
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	return namespace == address || time.Since(p.begin) < p.enforces, nil
}

func (p *timed) Remove(_ context.Context, namespace string) error {
	p.removed = append(p.removed, namespace)
	return p.removal
}

func TestProve_TimeOfThePlugin_IsCountedFromTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		probes timed
		proven bool
	}{
		"the image is pulled for long":      {timed{pull: 2 * time.Minute}, true},
		"the policies are applied at last":  {timed{pull: 2 * time.Minute, enforces: 25 * time.Second}, true},
		"the policies are applied too late": {timed{enforces: 45 * time.Second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				probes, begin := row.probes, time.Now()
				err := cage.Prove(t.Context(), &probes, cage.Cage{Namespace: "cage"}, "default")
				require.Equal(t, []string{"cage", "default"}, probes.removed)
				if row.proven {
					require.NoError(t, err)
					return
				}
				require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
				require.InDelta(t, 30, time.Since(begin).Seconds(), 2)
			})
		})
	}
}

func TestProve_ProbesCannotBeRemoved_IsInTheError(t *testing.T) {
	t.Parallel()
	for name, enforces := range map[string]time.Duration{"proven": 0, "not proven": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				probes := timed{enforces: enforces, removal: errors.New("the API server is away")}
				err := cage.Prove(t.Context(), &probes, cage.Cage{Namespace: "cage"}, "default")
				require.ErrorContains(t, err, "the API server is away")
				if enforces > 0 {
					require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
					require.ErrorContains(t, err, "reaches one in it")
				}
			})
		})
	}
}
