package report_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/report"
)

func TestEarlyApply_Text(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*report.EarlyApply{
		"":                                     {},
		"excluded":                             {State: "excluded"},
		"unproven":                             {State: "unproven"},
		"unproven on 1 store":                  {State: "unproven", Stores: 1},
		"unproven on 2 stores of 1 region":     {State: "unproven", Stores: 2, Regions: 1},
		"unproven; 1 replica ahead of the log": {State: "unproven", Ahead: 1},
		"unproven; 3 replicas rebuilt, which were ahead of the log": {State: "unproven", Ahead: 3, Rebuilt: 3},
	} {
		require.Equal(t, want, e.Text())
	}
	require.Empty(t, (*report.EarlyApply)(nil).Facts())
	require.True(t, (&report.EarlyApply{State: "a word of a later version"}).Unproven())
	require.False(t, (&report.EarlyApply{State: "not-applicable"}).Unproven())
}
