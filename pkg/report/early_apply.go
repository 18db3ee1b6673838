package report

import (
	"fmt"
	"strings"
)

// EarlyApply is what a backup proved about replicas whose data may be ahead of their raft logs, and how a restore
// repaired those that were.
type EarlyApply struct {
	// State is the manifest's: excluded, unproven or not-applicable.
	State string `json:"state"`
	// Stores and Regions are how many the backup could not prove it for; if both are 0, it may be anywhere.
	Stores  int `json:"stores,omitempty"`
	Regions int `json:"regions,omitempty"`
	// Ahead is how many replicas a restore found ahead of the log, Rebuilt how many of them were rebuilt from the
	// others.
	Ahead   int `json:"ahead,omitempty"`
	Rebuilt int `json:"rebuilt,omitempty"`
}

// The states in which no replica is ahead.
const (
	excluded      = "excluded"
	notApplicable = "not-applicable"
)

// Unproven reports whether, by the backup, a replica may be ahead.
func (e *EarlyApply) Unproven() bool { return e.State != excluded && e.State != notApplicable }

// Text describes it; "" for nil.
func (e *EarlyApply) Text() string {
	if e == nil {
		return ""
	}
	parts := []string{Name(e.State)}
	if e.Stores > 0 {
		parts[0] += " on " + count(e.Stores, "store", "stores")
	}
	if e.Regions > 0 {
		parts[0] += " of " + count(e.Regions, "region", "regions")
	}
	switch {
	case e.Rebuilt > 0:
		parts = append(parts,
			fmt.Sprintf("%s rebuilt, which were ahead of the log", count(e.Rebuilt, "replica", "replicas")))
	case e.Ahead > 0:
		parts = append(parts, count(e.Ahead, "replica", "replicas")+" ahead of the log")
	}
	return strings.Join(parts, "; ")
}

// Facts is one line, as a term and a text; none for nil.
func (e *EarlyApply) Facts() [][2]string {
	if e == nil {
		return nil
	}
	return [][2]string{{"early apply", e.Text()}}
}
