package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestParse_RulesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]fault.Rule{
		"after:ec2.CreateSnapshots":                             {Point: "ec2.CreateSnapshots", Position: fault.After},
		"before:ec2.CreateSnapshots:RequestLimitExceeded":       {Point: "ec2.CreateSnapshots", Code: "RequestLimitExceeded"},
		"stall:tikv.*.RecoverRegion":                            {Point: "tikv.*.RecoverRegion", Position: fault.Stall},
		"before:pd.PauseScheduler@2x3":                          {Point: "pd.PauseScheduler", Nth: 2, Times: 3},
		"before:pd.Tso:[PD:server:ErrServerNotStarted] not @up": {Point: "pd.Tso", Code: "[PD:server:ErrServerNotStarted] not @up"},
	} {
		got, err := fault.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "after", "later:x", "after:"} {
		_, err := fault.Parse(text)
		assert.Error(t, err, text)
	}
}

func TestAt_NthAndTimes_StrikeJustThose(t *testing.T) {
	t.Parallel()
	p := &fault.Plan{}
	require.NoError(t, p.Add(fault.Rule{Point: "a.*", Nth: 2, Times: 2}))
	var struck []bool
	for range 5 {
		struck = append(struck, p.At("a.b") != nil)
	}
	assert.Equal(t, []bool{false, true, true, false, false}, struck)
	assert.Nil(t, p.At("b.b"))
	assert.Equal(t, 5, p.Calls("a.b"))
}

func TestUnreached_ListsRulesThatNeverStruck(t *testing.T) {
	t.Parallel()
	p := &fault.Plan{}
	require.NoError(t, p.Add(fault.Rule{Point: "never", Position: fault.After}))
	require.NoError(t, p.Add(fault.Rule{Point: "once"}))
	p.At("once")
	assert.Equal(t, []string{"after never (call 1, seen 0)"}, p.Unreached())
	assert.Error(t, p.Add(fault.Rule{Point: "["}))
}

func TestWait_Stall_LastsUntilTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, (&fault.Strike{Position: fault.Stall}).Wait(ctx), context.DeadlineExceeded)
	require.NoError(t, (&fault.Strike{Position: fault.Slow, Delay: time.Microsecond}).Wait(t.Context()))
	var none *fault.Strike
	require.NoError(t, none.Wait(t.Context()))
}

func TestWatch_SeesEveryPointAndStrikesWhereNoRuleDoes(t *testing.T) {
	t.Parallel()
	p := &fault.Plan{}
	var seen []string
	did := 0
	p.Watch(func(point string) *fault.Rule {
		seen = append(seen, point)
		if point == "c" {
			return nil
		}
		return &fault.Rule{Position: fault.After, Do: func() { did++ }}
	})
	require.NoError(t, p.Add(fault.Rule{Point: "b", Position: fault.Before}))
	assert.Equal(t, fault.After, p.At("a").Position)
	assert.Equal(t, fault.Before, p.At("b").Position)
	assert.Nil(t, p.At("c"))
	assert.Equal(t, []string{"a", "b", "c"}, seen)
	assert.Equal(t, 1, did)
	p.Watch(nil)
	assert.Nil(t, p.At("a"))
}
