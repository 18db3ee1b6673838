package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMeter_SteadyThenStalled(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	var m meter
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	m.observe(40, at(0)) // a resumed step does not begin at 0
	_, known := m.eta(40, 100)
	assert.False(t, known, "one sample is no rate")
	for s := 1.0; s <= 20; s++ {
		m.observe(40+int64(s), at(s))
	}
	assert.InDelta(t, 1, m.rate(), 0.01)
	left, known := m.eta(60, 100)
	assert.True(t, known)
	assert.InDelta(t, 40, left.Seconds(), 1)

	m.observe(60, at(50)) // stalled
	assert.Less(t, m.rate(), 0.6)
	m.observe(60, at(100_000))
	_, known = m.eta(60, 100)
	assert.False(t, known, "an estimate of months is none")

	m.observe(3, at(100_001))
	assert.Zero(t, m.rate(), "a count that goes down starts again")
	_, known = m.eta(101, 100)
	assert.False(t, known)
}

func TestMeter_BurstOfAdvances_IsOneSample(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 8, 22, 10, 0, 0, 0, time.UTC)
	var m meter
	for ms := range 4001 {
		m.observe(int64(ms), start.Add(time.Duration(ms)*time.Millisecond))
	}
	assert.InDelta(t, 1000, m.rate(), 1)
}
