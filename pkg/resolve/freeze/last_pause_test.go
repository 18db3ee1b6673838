package freeze

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/pd"
)

// slowPD has one scheduler, and takes a second for a pause. As a server does, it carries a pause out whose client has gone.
type slowPD struct {
	PD
	begun chan struct{} // gets one for each pause that begins

	mu     sync.Mutex
	paused bool
}

func (p *slowPD) Schedulers(context.Context) ([]pd.Scheduler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []pd.Scheduler{{Name: "balance-leader-scheduler", Paused: p.paused}}, nil
}

func (p *slowPD) set(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = paused
}

func (p *slowPD) PauseScheduler(ctx context.Context, _ string, _ time.Duration) error {
	carriedOut := make(chan struct{})
	time.AfterFunc(time.Second, func() {
		p.set(true)
		close(carriedOut)
	})
	p.begun <- struct{}{}
	select {
	case <-carriedOut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *slowPD) ResumeScheduler(context.Context, string) error {
	p.set(false)
	return nil
}

func (p *slowPD) SetTTLConfig(context.Context, map[string]any, time.Duration) error { return nil }
func (p *slowPD) DropTTLConfig(context.Context, []string) error                     { return nil }
func (p *slowPD) ReleaseGC(context.Context, string) error                           { return nil }

func (p *slowPD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) {
	return nil, 0, nil
}

func (p *slowPD) TTLConfig(context.Context) (map[string]string, error) {
	all := map[string]string{}
	for item := range frozen {
		all[item] = "0"
	}
	return all, nil
}

// A pause that is under way when PD is released must not be carried out after that: it would last for ten minutes.
func TestThaw_PauseUnderWay_IsWaitedForAndResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &slowPD{begun: make(chan struct{}, 10)}
		f := New(Config{Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Service: "tisnap-run", PD: p, Fence: new(fenced.None), Log: zap.NewNop()})
		require.NoError(t, f.Freeze(t.Context(), false))
		<-p.begun
		require.NoError(t, f.Thaw(t.Context(), false))
		synctest.Wait()
		for range 10 { // whatever is still under way ends
			<-time.After(time.Second)
			list, err := p.Schedulers(t.Context())
			require.NoError(t, err)
			require.False(t, list[0].Paused)
		}
	})
}
