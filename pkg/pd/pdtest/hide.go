package pdtest

import "bytes"

// HideRegion makes PD's lists of regions leave out the one that holds the key, as a PD does that has lost it; nil
// shows all again.
func (s *Server) HideRegion(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = bytes.Clone(key)
}

// hiddenLocked reports whether the region is left out.
func (s *Server) hiddenLocked(r *region) bool {
	m := r.meta
	return s.hidden != nil && bytes.Compare(m.GetStartKey(), s.hidden) <= 0 &&
		(len(m.GetEndKey()) == 0 || bytes.Compare(s.hidden, m.GetEndKey()) < 0)
}
