package cli

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the golden files of estimate")

func TestEstimate_Tables_MatchGolden(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"estimate-published": {"estimate", "--stores", "20", "--data", "1050GB", "--volume-type", "gp3", "--iops", "7000", "--throughput", "400", "--volume-size", "3200", "--writes=false"},
		"estimate-fsr":       {"estimate", "--stores", "150", "--volumes", "450", "--data", "3TB", "--changed", "100GB", "--fsr", "--other-region"},
		"estimate-rate":      {"estimate", "--stores", "60", "--data", "3TB", "--initialization-rate", "300", "--volume-type", "io2", "--volume-iops", "16000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, args...)
			require.Zero(t, code, stderr)
			path := filepath.Join("testdata", name+".txt")
			if *updateGolden {
				require.NoError(t, os.MkdirAll("testdata", 0o750))
				require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err, "run go test -update-golden")
			require.Equal(t, string(want), out)
		})
	}
}

func TestEstimate_JSON_HasTheSameFigures(t *testing.T) {
	t.Parallel()
	code, out, stderr := run(t, "estimate", "--stores", "20", "--data", "1TiB", "-o", "json")
	require.Zero(t, code, stderr)
	var doc struct {
		Kind      string
		Estimates []struct{ Total struct{ Seconds float64 } }
		Choices   []struct{ Fastest, Cheapest bool }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Equal(t, "Estimate", doc.Kind)
	require.Len(t, doc.Estimates, 2)
	require.Greater(t, doc.Estimates[1].Total.Seconds, 1000.0)
	require.Len(t, doc.Choices, 6)
}

func TestEstimate_WhatCannotBe_IsUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no size at all": {"estimate"}, "no size": {"estimate", "--stores", "3", "--data", "much"}, "too large": {"estimate", "--stores", "3", "--data", "9EiB"},
		"fewer volumes": {"estimate", "--stores", "3", "--volumes", "1", "--data", "1GB"}, "no such file": {"estimate", "--stores", "3", "--data", "1GB", "--prices", "/none"},
		"old type":   {"estimate", "--stores", "3", "--data", "1GB", "--volume-type", "standard"},
		"no storage": {"estimate", "restore", "b"}, "below zero": {"estimate", "--stores", "3", "--data", "1GB", "--iops", "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, args...)
			require.EqualValues(t, 2, code, stderr)
		})
	}
}
