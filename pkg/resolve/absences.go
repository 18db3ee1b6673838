package resolve

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// absences logs stores that do not answer: one line when a store becomes unreachable, and one when it is back, with the
// number of tries. A line per try would be five a second. It is safe for concurrent use.
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

// failed records a failed try.
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

// back records that a store is working on the request.
func (a *absences) back(store cluster.StoreID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if was := a.away[store]; was != nil {
		delete(a.away, store)
		a.log.Info("store is back", zap.Stringer("store", store), zap.Int("failedTries", was.tries),
			zap.Duration("after", time.Since(was.since)))
	}
}

// end logs the stores that are still unreachable: they are not asked any more.
func (a *absences) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for store, was := range a.away {
		a.log.Warn("store is still away", zap.Stringer("store", store), zap.Int("failedTries", was.tries),
			zap.Duration("after", time.Since(was.since)), zap.Error(was.err))
	}
	clear(a.away)
}
