package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func pinned(t *testing.T, c catalog.Catalog, id cluster.BackupID) *manifest.PinRecord {
	t.Helper()
	pin, err := c.PinOf(t.Context(), id, "run-1")
	require.NoError(t, err)
	return pin
}

func TestPin_OnlyLonger_UntilUnpinned(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	later := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	made, err := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "audit", Until: later})
	require.NoError(t, err)
	require.Equal(t, later, made.Until)
	require.Equal(t, *made, pinned(t, c, "b1").Pin)

	before := len(store.MutatingCalls())
	same, err := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "audit", Until: later})
	require.NoError(t, err)
	require.Equal(t, made.PinnedAt, same.PinnedAt)
	require.Len(t, store.MutatingCalls(), before, "it is there already")

	_, err = c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "audit", Until: later.Add(-time.Hour)})
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "never made shorter")
	_, err = c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "for good"})
	require.NoError(t, err)
	_, err = c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "audit", Until: later})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "without an end is the longest")
	require.Equal(t, "pinned: for good", pinned(t, c, "b1").String())

	_, version, err := c.StoredPin(t.Context(), "b1")
	require.NoError(t, err)
	require.Equal(t, failure.Conflict, failure.KindOf(c.Unpin(t.Context(), "b1", "another")), "another pin stays")
	require.NoError(t, c.Unpin(t.Context(), "b1", version))
	require.Nil(t, pinned(t, c, "b1"))
	require.NoError(t, c.Unpin(t.Context(), "b1", version), "it is gone")
}

func TestPin_WhatItRefuses_LeavesNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		prepare func(*testing.T, catalog.Catalog)
		req     catalog.PinRequest
		kind    failure.Kind
		text    string
	}{
		"no reason":  {nil, catalog.PinRequest{Backup: "b1"}, failure.Usage, "no reason"},
		"it is over": {nil, catalog.PinRequest{Backup: "b1", Reason: "r", Until: time.Now().Add(-time.Hour)}, failure.Usage, "is over"},
		"no backup":  {nil, catalog.PinRequest{Backup: "other", Reason: "r"}, failure.NotFound, ""},
		"a dry run":  {nil, catalog.PinRequest{Backup: "b1", Reason: "r", DryRun: true}, failure.Unknown, ""},
		"being removed": {func(t *testing.T, c catalog.Catalog) {
			require.NoError(t, c.Bury(t.Context(), "b1", "run-1", "deleted", false))
		}, catalog.PinRequest{Backup: "b1", Reason: "r", Force: true}, failure.NotFound, "being removed"},
		"its deletion was announced": {func(t *testing.T, c catalog.Catalog) {
			announceNow(t, c, "b1")
		}, catalog.PinRequest{Backup: "b1", Reason: "r"}, failure.Conflict, "a deletion of it has been announced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCatalog(t)
			sealed(t, c, "b1")
			if row.prepare != nil {
				row.prepare(t, c)
			}
			_, err := c.Pin(t.Context(), row.req)
			if row.req.DryRun {
				require.NoError(t, err)
			} else {
				require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, row.text)
			}
			require.Nil(t, pinned(t, c, "b1"))
		})
	}
}

// Of a deletion and a pin at the same time at least one is refused, between whichever calls of the pin the deletion
// looks for pins, and whether it buries the backup at once or, suspended, when the pin is done.
func TestPin_DeletionMeanwhile_OneOfThemIsRefused(t *testing.T) {
	t.Parallel()
	for name, atOnce := range map[string]bool{"at once": true, "suspended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes := map[bool]int{}
			for nth := 1; nth <= 10; nth++ {
				outcomes[pinBeside(t, nth, atOnce)]++
			}
			require.Len(t, outcomes, 2)
		})
	}
}

// pinBeside pins a backup whose deletion looks for pins before the nth call of the pin, and reports whether it is pinned.
func pinBeside(t *testing.T, nth int, atOnce bool) bool {
	t.Helper()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	bury := func() {}
	late := catalog.Catalog{Store: &suspended{Store: store, nth: nth, others: func() {
		announceNow(t, c, "b1")
		if pinned(t, c, "b1") != nil {
			return
		}
		bury = func() { require.NoError(t, c.Bury(t.Context(), "b1", "run-1", "deleted", false)) }
		if atOnce {
			bury()
		}
	}}}
	_, err := late.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "r"})
	bury()
	_, lost := c.Load(t.Context(), "b1")
	require.False(t, err == nil && lost != nil, "call %d: it is pinned, and buried", nth)
	if err != nil {
		require.Nil(t, pinned(t, c, "b1"), "call %d: what is refused leaves no pin", nth)
	}
	if err != nil && lost == nil {
		_, forced := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "r", Force: true})
		require.NoError(t, forced)
		_, longer := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "another"})
		require.NoError(t, longer, "what is pinned no deletion passes")
	}
	return err == nil
}

func TestPin_AnswerIsLost_IsFoundByItsNonce(t *testing.T) {
	t.Parallel()
	c, _ := newCatalog(t, fault.Rule{Point: "s3.PutObject", Position: fault.After, Times: -1})
	sealed(t, c, "b1")
	_, err := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "r"})
	require.NoError(t, err)
	require.NotNil(t, pinned(t, c, "b1"))
}

// A pin is of one backup, not of its name; one that is over, or of an earlier backup, keeps nothing. What cannot be read
// keeps every backup of its name.
func TestPins_OfAnEarlierBackupOrExpired_KeepNothing(t *testing.T) {
	t.Parallel()
	c, store := newCatalog(t)
	sealed(t, c, "b1")
	_, err := c.Pin(t.Context(), catalog.PinRequest{Backup: "b1", Reason: "r"})
	require.NoError(t, err)
	pin, err := c.PinOf(t.Context(), "b1", "run-2")
	require.NoError(t, err)
	require.Nil(t, pin, "a later backup of that name")

	over := manifest.PinRecord{Backup: "b2", Run: "run-1", Pin: manifest.Pin{Reason: "r", Until: time.Now().Add(-time.Second)}}
	doc, err := over.Encode()
	require.NoError(t, err)
	put(t, store, manifest.PinKey("b2"), string(doc))
	put(t, store, manifest.PinKey("b3"), "{")
	put(t, store, "pins/other", "x")
	all, err := c.Pins(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Contains(t, all["b3"].Reason, "cannot be read")
	require.True(t, all["b3"].Of("run-9"))
	require.False(t, all["b1"].Of("run-9"))

	sealed(t, c, "b3")
	_, err = c.Pin(t.Context(), catalog.PinRequest{Backup: "b3", Reason: "r"})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "a newer tisnap may have written it")
}
