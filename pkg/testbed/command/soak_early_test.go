package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// A restore that is silent of one replica, names another, or refuses for nothing is found.
func TestJudgeEarly_RefusalHasToNameEveryReplica(t *testing.T) {
	t.Parallel()
	replicas := func(n int) *round.Ahead {
		held := &round.Ahead{}
		for i := range n {
			held.Affected = append(held.Affected, round.Replica{Region: uint64(10 + i), Store: 1})
		}
		return held
	}
	message := func(count int, named ...int) string {
		var lines []string
		for _, region := range named {
			lines = append(lines, fmt.Sprintf("region %d on store 1, applied up to index 20", region))
		}
		return fmt.Sprintf("%d replicas have data that no log has: %s", count, strings.Join(lines, ", "))
	}
	const ten = 10
	for name, c := range map[string]struct {
		held   *round.Ahead
		code   int
		output string
		wrong  string
	}{
		"all are named":                    {replicas(2), corrupt, message(2, 10, 11), ""},
		"one is not":                       {replicas(2), corrupt, message(2, 10), "named 1 of the 2"},
		"another is":                       {replicas(1), corrupt, message(1, 11), "named 0 of the 1"},
		"another count":                    {replicas(1), corrupt, message(3, 10), "did not print"},
		"more than a message lists":        {replicas(ten + 2), corrupt, message(ten+2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19), ""},
		"refused for nothing":              {replicas(0), corrupt, message(0), "without a replica"},
		"another end":                      {replicas(1), 8, "", "ended with 8"},
		"a restore that ends well":         {replicas(1), 0, "", ""},
		"a region without a healthy one":   {replicas(2), corrupt, "every replica has data that no log of the backup has: region 10 on store 1, applied", ""},
		"such a region, that is not there": {replicas(2), corrupt, "every replica has data that no log of the backup has: region 99 on store 1, applied", "named 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := judgeEarly(c.held, c.code, c.output)
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.wrong)
		})
	}
}
