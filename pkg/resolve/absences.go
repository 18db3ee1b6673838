package resolve

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// absences logs the stores that do not answer: one line when a store is away, and one when it is back, with how often
// it was asked. A line for each try would be five a second. It is safe for concurrent use.
type absences struct {
	log *zap.Logger

	mu   sync.Mutex
	away map[cluster.StoreID]*absence
}

// absence is one store that does not answer.
type absence struct {
	since time.Time
	tries int
	err   error // of the last try
}

func newAbsences(log *zap.Logger) *absences {
	return &absences{log: log, away: map[cluster.StoreID]*absence{}}
}

// failed notes a try that failed.
func (a *absences) failed(store cluster.StoreID, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away[store] == nil {
		a.away[store] = &absence{since: time.Now()}
		a.log.Warn("store is away; it is asked until it answers", zap.Stringer("store", store), zap.Error(err))
	}
	a.away[store].tries++
	a.away[store].err = err
}

// back notes that a store works on what it was asked for.
func (a *absences) back(store cluster.StoreID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.away[store]; was != nil {
		delete(a.away, store)
		a.log.Info("store is back", zap.Stringer("store", store), zap.Int("failedTries", was.tries),
			zap.Duration("after", time.Since(was.since)))
	}
}

// end logs the stores that are still away: nobody asks them any more.
func (a *absences) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for store, was := range a.away {
		a.log.Warn("store is still away", zap.Stringer("store", store), zap.Int("failedTries", was.tries),
			zap.Duration("after", time.Since(was.since)), zap.Error(was.err))
	}
	clear(a.away)
}
