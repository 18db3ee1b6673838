package crash

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

// gate is one process's way to AWS. While it is shut, nothing that it sends to object storage arrives or is answered; EC2 is
// reached all the time.
type gate struct {
	*httptest.Server

	mu   sync.Mutex
	shut chan struct{} // nil while it is open; closed when it opens
}

func newGate(aws string) (*gate, error) {
	to, err := url.Parse(aws)
	if err != nil {
		return nil, err
	}
	g := &gate{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/" { // not EC2's
			g.mu.Lock()
			shut := g.shut
			g.mu.Unlock()
			if shut != nil {
				select {
				case <-shut:
				case <-r.Context().Done():
				}
				panic(http.ErrAbortHandler) // what was sent meanwhile is lost
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	return g, nil
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// A process loses its way to object storage, and to nothing else, for so long that another one takes its lock over and
// finishes its run. It releases the cluster while it is still cut off, and when it can read the lock again it ends as one
// that has lost it, without having changed anything.
func TestCutOff_FromObjectStorage_IsFencedBeforeItsNextEffect(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	rows := []struct {
		run Run
		at  string
	}{
		{Backup, "tikv.*.PrepareSnapshotBackup.WaitApply.Region"}, // the cluster is held
		{Restore, "tikv.*.ReadRegionMeta"},                        // its volumes are made
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	err = parallel.Each(ctx, len(rows), rows, func(ctx context.Context, i int, row struct {
		run Run
		at  string
	}) error {
		w, err := newWorld(ctx, dirs[i], &Program{Path: path}, 1)
		if err != nil {
			return err
		}
		defer w.bed.Close()
		if err := w.scene(row.run).cutOff(ctx, row.at); err != nil {
			return errors.Join(err, errors.New(w.out.String()))
		}
		return nil
	})
	require.NoError(t, err)
}

// cutOff cuts the process off at a call, and lets it have its way back once another one has finished the run.
func (s *scene) cutOff(ctx context.Context, at string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := newGate(s.bed.AWS())
	if err != nil {
		return err
	}
	defer g.Close()
	defer g.CloseClientConnections()
	reached, once := make(chan struct{}), sync.Once{}
	s.faults.Watch(func(point string) *fault.Rule {
		if anyStore(point) == at {
			once.Do(func() {
				g.close()
				close(reached)
			})
		}
		return nil
	})
	defer s.faults.Watch(nil)
	p := s.startSleeper(ctx, &Program{Path: s.program.Path}, append(s.args(), "--endpoint-url", g.URL))
	p.rouse = g.open
	defer func() {
		cancel()
		p.wake()
		s.out.WriteString("the process that was cut off:\n" + p.out.String())
	}()
	select {
	case <-reached:
	case <-p.ended:
		return errors.New("the process ended before it was cut off")
	}
	s.faults.Watch(nil)
	if s.run == Backup {
		if err := s.awaitReleaseWhileCutOff(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(s.awaitOverdue(ctx), s.finishedByAnother(ctx)); err != nil {
		return err
	}
	if _, err := s.changesNothing(ctx, p, Cell{}, nil); err != nil {
		return err
	}
	return s.verifyResult(ctx)
}

// awaitReleaseWhileCutOff waits until the cluster is released, though the process lives and nothing that it writes arrives.
func (s *scene) awaitReleaseWhileCutOff(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		held := s.bed.Nodes.Cluster(source).Held()
		if len(held) == 0 {
			return nil
		}
		if err := wait.For(ctx, 50*time.Millisecond); err != nil {
			return errors.New("still held: " + strings.Join(held, ", "))
		}
	}
}
