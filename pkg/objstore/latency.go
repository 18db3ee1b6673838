package objstore

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Latency is the shortest time in which a storage began to answer a small request; 0 if it answered none, as a folder
// does.
func Latency(s Store) time.Duration {
	if timed, ok := s.(interface{ Latency() time.Duration }); ok {
		return timed.Latency()
	}
	return 0
}

// smallRequest is how many bytes a request may have that shows the latency, rather than the bandwidth.
const smallRequest = 16 << 10

// stopwatch measures how long answers take to begin.
type stopwatch struct {
	next  http.RoundTripper
	least atomic.Int64 // 0 before the first answer
}

// RoundTrip implements http.RoundTripper.
func (s *stopwatch) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := s.next.RoundTrip(r)
	if err != nil || r.ContentLength < 0 || r.ContentLength > smallRequest {
		return answer, err
	}
	took := max(1, time.Since(began).Nanoseconds())
	for {
		least := s.least.Load()
		if least != 0 && least <= took || s.least.CompareAndSwap(least, took) {
			return answer, nil
		}
	}
}

// Latency is that of Latency.
func (s *s3Store) Latency() time.Duration { return time.Duration(s.watch.least.Load()) }

// Latency is that of the store.
func (a askFirst) Latency() time.Duration { return Latency(a.Store) }
