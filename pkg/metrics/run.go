package metrics

import (
	"time"

	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// maxPhases bounds the phases of a run: there are about ten.
const maxPhases = 40

// AddReport adds the metrics of a run's report. Phases of the same name, as in several attempts, are one series.
func (s *Set) AddReport(r *report.Report) {
	s.AddOutcome(r)
	s.AddTimes(r)
}

// AddOutcome adds the run's outcome, start and end.
func (s *Set) AddOutcome(r *report.Report) {
	of := []string{r.Cluster.String(), string(r.Operation)}
	s.AddBool("tisnap_run_success", r.Outcome == phase.Done, of...)
	s.AddTime("tisnap_run_start_timestamp_seconds", r.Started, of...)
	s.AddTime("tisnap_run_end_timestamp_seconds", r.Finished, of...)
}

// AddTimes adds how long the run took, and its size.
func (s *Set) AddTimes(r *report.Report) {
	of := []string{r.Cluster.String(), string(r.Operation)}
	s.Add("tisnap_run_duration_seconds", r.TotalSeconds, of...)
	s.Add("tisnap_run_volumes", float64(r.Volumes), of...)
	s.Add("tisnap_run_tikvs", float64(r.TiKVs), of...)
	s.Add("tisnap_run_warnings", float64(len(r.Warnings)), of...)
	if r.DataBytes > 0 {
		s.Add("tisnap_run_data_bytes", float64(r.DataBytes), of...)
	}
	if r.Hold != nil {
		s.Add("tisnap_run_hold_duration_seconds", r.Hold.Seconds, of...)
		s.Add("tisnap_run_cut_duration_seconds", r.Hold.CutSeconds, of...)
		s.Add("tisnap_run_hold_attempts", float64(r.Hold.Attempts), of...)
	}
	if r.EarlyApply != nil {
		s.AddBool("tisnap_run_early_apply_unproven", r.EarlyApply.Unproven(), of...)
		s.Add("tisnap_run_replicas_rebuilt", float64(r.EarlyApply.Rebuilt), of...)
	}
	shown := map[string]bool{}
	for _, p := range r.Phases {
		if shown[p.Name] || len(shown) == maxPhases {
			continue
		}
		shown[p.Name] = true
		seconds, _ := r.Seconds(p.Name)
		s.Add("tisnap_run_phase_duration_seconds", seconds, []string{of[0], of[1], p.Name}...)
	}
}

// AddExit adds how a run's process ended.
func (s *Set) AddExit(r *report.Report, code int, held bool) {
	of := []string{r.Cluster.String(), string(r.Operation)}
	s.Add("tisnap_run_exit_code", float64(code), of...)
	s.AddBool("tisnap_run_cluster_held", held, of...)
}

// AddGarbage adds what gc found and did; every kind and action is present, so that an increase from zero is visible.
func (s *Set) AddGarbage(r *gc.Report, ok bool, now time.Time) {
	s.AddBool("tisnap_gc_success", ok)
	s.AddTime("tisnap_gc_end_timestamp_seconds", now)
	if r == nil {
		return
	}
	counts := map[gc.Kind]map[gc.Action]int{}
	for _, item := range r.Items {
		if counts[item.Kind] == nil {
			counts[item.Kind] = map[gc.Action]int{}
		}
		counts[item.Kind][item.Action]++
	}
	for _, kind := range []gc.Kind{gc.KindSnapshot, gc.KindVolume, gc.KindFastRestore, gc.KindBackup} {
		for _, action := range []gc.Action{
			gc.ActionDelete, gc.ActionDeleted, gc.ActionLeft, gc.ActionKeep, gc.ActionInUse,
		} {
			s.Add("tisnap_gc_items", float64(counts[kind][action]), string(kind), string(action))
		}
	}
	s.Add("tisnap_gc_broken_backups", float64(len(r.Missing)))
}
