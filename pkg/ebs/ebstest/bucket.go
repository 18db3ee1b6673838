package ebstest

import (
	"strings"
	"time"
)

// bucketState is one token bucket in virtual time.
type bucketState struct {
	tokens float64
	at     time.Time
}

// takeToken takes one token of the action's bucket. EC2 gives Describe calls without filter and page a
// smaller bucket of their own.
func (s *Server) takeToken(act action, req request) bool {
	name, rule := s.bucketOf(act, req)
	if rule.Size == 0 {
		return true // unlimited by configuration
	}
	now := s.now()
	b, ok := s.buckets[name]
	if !ok {
		b = &bucketState{tokens: rule.Size, at: now}
		s.buckets[name] = b
	}
	gain := rule.Refill - s.rules.Neighbours[act.name]
	b.tokens = max(0, min(rule.Size, b.tokens+now.Sub(b.at).Seconds()*gain))
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func (s *Server) bucketOf(act action, req request) (string, Bucket) {
	if rule, ok := s.rules.Buckets[act.name]; ok {
		return act.name, rule
	}
	if act.mutating {
		return act.name, s.rules.Mutating
	}
	if req.has("Filter.1.Name") || req.has("MaxResults") || strings.HasPrefix(act.name, "DescribeAvailability") {
		return act.name + " paged", s.rules.Paged
	}
	return act.name + " listed", s.rules.Listed
}

// DrainBucket empties an action's bucket, as a noisy neighbour in the account does. For Describe calls
// both of their buckets are emptied.
func (s *Server) DrainBucket(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range []string{action, action + " paged", action + " listed"} {
		s.buckets[name] = &bucketState{at: s.now()}
	}
}
