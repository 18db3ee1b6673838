package ebsdirecttest

import "time"

// bucket is a token bucket in virtual time.
type bucket struct {
	tokens float64
	at     time.Time
}

// take takes a token from the snapshot's and the account's bucket, or from none.
func (s *Server) take(name, id string) error {
	if name == listChanged {
		name = listBlocks
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.bucket(name+" "+id, s.rules.Snapshot[name])
	all := s.bucket(name, s.rules.Account[name])
	switch {
	case own != nil && own.tokens < 1:
		return refusal("RequestThrottledException", "RESOURCE_LEVEL_THROTTLE", "The rate of calls on the snapshot is exceeded.")
	case all != nil && all.tokens < 1:
		return refusal("RequestThrottledException", "ACCOUNT_THROTTLED", "The rate of calls in the account is exceeded.")
	}
	for _, b := range []*bucket{own, all} {
		if b != nil {
			b.tokens--
		}
	}
	return nil
}

// bucket is a bucket filled up to now; nil if there is no limit.
func (s *Server) bucket(name string, rate float64) *bucket {
	if rate == 0 {
		return nil
	}
	size, now := max(1, rate*s.rules.Burst.Seconds()), s.now()
	b := s.buckets[name]
	if b == nil {
		b = &bucket{tokens: size, at: now}
		s.buckets[name] = b
	}
	b.tokens = min(size, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	return b
}
