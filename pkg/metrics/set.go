package metrics

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Set collects values for the table's metrics. It is a prometheus.Collector of constants; it is not safe for concurrent
// use while values are added.
type Set struct {
	descs  map[string]*prometheus.Desc
	values []prometheus.Metric
	seen   map[string]bool
	err    error
}

// NewSet makes an empty set.
func NewSet() *Set {
	s := &Set{descs: map[string]*prometheus.Desc{}, seen: map[string]bool{}}
	for _, m := range Table() {
		s.descs[m.Name] = m.desc()
	}
	return s
}

// Add sets a metric's value. The labels are those of the table, in its order, and are sanitized. A second value for the
// same labels is dropped: names that differ only in what sanitizing removes must not fail a scrape. A name that is not
// in the table is an error that Err returns.
func (s *Set) Add(name string, value float64, labels ...string) {
	labels = slices.Clone(labels)
	for i := range labels {
		labels[i] = Label(labels[i])
	}
	desc, known := s.descs[name]
	if !known {
		s.err = fmt.Errorf("metric %s is not in the table", name)
		return
	}
	key := fmt.Sprintf("%s%q", name, labels)
	if s.seen[key] {
		return
	}
	m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	if err != nil {
		s.err = err
		return
	}
	s.seen[key] = true
	s.values = append(s.values, m)
}

// AddTime adds a time as Unix seconds; the zero time is omitted.
func (s *Set) AddTime(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.Add(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// AddBool adds 1 or 0.
func (s *Set) AddBool(name string, yes bool, labels ...string) {
	value := 0.0
	if yes {
		value = 1
	}
	s.Add(name, value, labels...)
}

// Complete drops what only Add needs, for a set that is kept. An Add after it is a misuse, which Err returns.
func (s *Set) Complete() {
	s.descs, s.seen = nil, nil
	s.values = slices.Clip(s.values)
}

// Err returns the first misuse of Add, nil if there was none.
func (s *Set) Err() error { return s.err }

// Len returns the number of time series.
func (s *Set) Len() int { return len(s.values) }

// Describe implements prometheus.Collector: it describes nothing, because the set does not have all of the table's
// metrics.
func (s *Set) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Set) Collect(ch chan<- prometheus.Metric) {
	for _, m := range s.values {
		ch <- m
	}
}
