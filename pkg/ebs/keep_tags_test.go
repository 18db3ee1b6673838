package ebs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestKeepTags_AllowList_NothingElseAndOwnWin(t *testing.T) {
	t.Parallel()
	own := ebs.Tags{ebs.TagRun: "new", "team": "mine"}
	sum, differing := ebs.KeepTags(own, []string{"cost-center", "team", "stage", "gone"},
		ebs.Tags{"cost-center": "7", "team": "theirs", "stage": "a", "other": "x", ebs.TagRun: "old"},
		ebs.Tags{"cost-center": "7", "stage": "b"})
	require.Equal(t, ebs.Tags{ebs.TagRun: "new", "team": "mine", "cost-center": "7"}, sum)
	require.Equal(t, []string{"stage"}, differing)
	require.Len(t, own, 2, "the argument stays as it is")
	sum, differing = ebs.KeepTags(nil, nil, ebs.Tags{"a": "b"})
	require.Empty(t, sum)
	require.Empty(t, differing)
}

func TestCheckKeepTags_Refused_Usage(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	require.NoError(t, ebs.CheckKeepTags(nil))
	require.NoError(t, ebs.CheckKeepTags([]string{"cost-center", "team"}))
	many := make([]string, 31)
	for i := range many {
		many[i] = strings.Repeat("k", i+1)
	}
	for name, keys := range map[string][]string{
		"empty": {""}, "long": {strings.Repeat("k", 129)}, "amazon's": {"aws:autoscaling"}, "own": {ebs.TagRun}, "many": many,
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, failure.Usage, failure.KindOf(ebs.CheckKeepTags(keys)), name)
		})
	}
}
