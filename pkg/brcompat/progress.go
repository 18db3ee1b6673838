package brcompat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// progressInterval is how often the Operator reads the file, and how often it is rewritten.
const progressInterval = time.Second

// progress is a file with a run's progress as one number, in percent. It is a phase.Sink: each named step adds its
// weighted share, and the number never falls. It reaches 100 only when the run is complete.
type progress struct {
	path    string
	log     *zap.Logger
	weights map[string]float64
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	shares map[string]float64 // of each step, 0 to 1
	value  float64
	done   bool
	failed bool // a failure to write the file was logged
}

// newProgress starts writing the file, at 0. Close it.
func newProgress(ctx context.Context, path string, log *zap.Logger, weights map[string]float64) *progress {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &progress{path: path, log: log, weights: weights, stop: stop, shares: map[string]float64{}}
	p.write()
	p.wg.Go(func() {
		for wait.For(ctx, progressInterval) == nil {
			p.write()
		}
	})
	return p
}

// Emit implements phase.Sink.
func (p *progress) Emit(e phase.Event) {
	share := 0.0
	switch {
	case e.Type == phase.StepFinished:
		share = 1
	case e.Type == phase.Progress && e.Total > 0:
		share = min(float64(e.Done)/float64(e.Total), 1)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares[e.Step] = max(p.shares[e.Step], share)
	reached, all := 0.0, 0.0
	for step, weight := range p.weights {
		all += weight
		reached += weight * p.shares[step]
	}
	if all > 0 {
		p.value = max(p.value, min(100*reached/all, 99.99))
	}
}

// close writes the file a last time: 100 if the run is complete.
func (p *progress) close(done bool) {
	p.stop()
	p.wg.Wait()
	p.mu.Lock()
	p.done = done
	p.mu.Unlock()
	p.write()
}

// write replaces the file. A failure is logged once and does not fail the run.
func (p *progress) write() {
	p.mu.Lock()
	value := p.value
	if p.done {
		value = 100
	}
	p.mu.Unlock()
	err := replaceFile(p.path, fmt.Appendf(nil, "%.2f", value))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && !p.failed {
		p.failed = true
		p.log.Warn("cannot write the progress file", zap.String("file", p.path), zap.Error(err))
	}
}

// replaceFile replaces the file atomically: a reader sees either the old or the new content.
func replaceFile(path string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // the error above is the one that counts
	}
	return err
}
