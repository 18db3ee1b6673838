package pdtest

import (
	"fmt"
	"slices"
	"time"
)

// Scheduler is a scheduler as tests see it.
type Scheduler struct {
	Name     string
	PausedAt time.Time // zero if not paused
	ResumeAt time.Time
}

// preparedShare is the share of regions whose heartbeats PD waits for before it schedules.
const preparedShare = 0.8

// prepareLocked notes when enough regions were reported since the leader started.
func (s *Server) prepareLocked() {
	if !s.mem.preparedAt.IsZero() {
		return
	}
	if total := len(s.disk.regions.byID); total > 0 && float64(s.disk.regions.led) >= preparedShare*float64(total) {
		s.mem.preparedAt = s.now()
	}
}

// coordinatorLocked reports whether schedulers run yet.
func (s *Server) coordinatorLocked() bool {
	at := s.mem.preparedAt
	return !at.IsZero() && !s.now().Before(at.Add(s.cfg.CoordinatorDelay))
}

// schedulersLocked lists the schedulers, none before the coordinator has started.
func (s *Server) schedulersLocked() []Scheduler {
	if !s.coordinatorLocked() {
		return nil
	}
	list := make([]Scheduler, 0, len(s.disk.schedulers))
	for _, name := range s.disk.schedulers {
		sch := Scheduler{Name: name}
		if p, paused := s.mem.pauses[name]; paused && s.now().Before(p.until) {
			sch.PausedAt, sch.ResumeAt = p.at, p.until
		}
		list = append(list, sch)
	}
	return list
}

// pauseLocked pauses or, for a delay of 0, resumes a scheduler or "all". It returns PD's refusal, or "".
func (s *Server) pauseLocked(name string, delay time.Duration) string {
	names := []string{name}
	running := s.schedulersLocked()
	if name == "all" {
		// While there is none yet this loop is empty and PD answers "successfully".
		names = names[:0]
		for _, sch := range running {
			names = append(names, sch.Name)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(running, func(sch Scheduler) bool { return sch.Name == n }) {
			return "[PD:scheduler:ErrSchedulerNotFound]scheduler not found"
		}
		now := s.now()
		s.mem.pauses[n] = pause{at: now, until: now.Add(delay)}
	}
	return ""
}

// Schedulers lists the schedulers that run, none before the coordinator has started.
func (s *Server) Schedulers() []Scheduler {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schedulersLocked()
}

// PauseByOther pauses a scheduler as another tool would; it is not counted as a call.
func (s *Server) PauseByOther(name string, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.pauseLocked(name, d); refusal != "" {
		return fmt.Errorf("pause %s: %s", name, refusal)
	}
	return nil
}

// AddScheduler adds one, as pd-ctl does; it is kept over restarts.
func (s *Server) AddScheduler(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.disk.schedulers, name) {
		s.disk.schedulers = append(s.disk.schedulers, name)
	}
}
