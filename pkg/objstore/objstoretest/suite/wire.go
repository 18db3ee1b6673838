package suite

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Wire is an S3 server that the tests of what happens on the way to it run on.
type Wire struct {
	URL string // of the server
	// Open makes an empty store for one test that talks to this endpoint.
	Open func(t *testing.T, endpoint string) objstore.Store
	// Objects is how many a large listing has; the server should need more than one page for them.
	Objects int
}

// RunWire checks what a store makes of lost answers, damaged bodies and long listings: the server's checksums
// and conditions have to be right for it.
func RunWire(t *testing.T, w Wire) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, objstore.Store, *Proxy){
		"Create_AnswerLost_IsOurs":               createLost,
		"Create_EveryAnswerLost_MayHaveHappened": createAllLost,
		"Replace_AnswerLost_IsOurs":              replaceLost,
		"Delete_AnswerLost_Succeeds":             deleteLost,
		"Put_DamagedOnTheWay_IsRefused":          putDamaged,
		"Get_DamagedOnce_IsReadAgain":            getDamagedOnce,
		"Get_Damaged_IsCorrupt":                  getDamaged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, w.URL)
			check(t, w.Open(t, p.URL()), p)
		})
	}
	t.Run("List_ManyPages_WholeAndSorted", func(t *testing.T) {
		t.Parallel()
		listLarge(t, w.Open(t, w.URL), w.Objects)
	})
}

func createLost(t *testing.T, s objstore.Store, p *Proxy) {
	p.Lose("PUT", 1)
	v := create(t, s, "a.json", "one")
	require.Equal(t, v, requireBody(t, s, "a.json", "one"))
	_, err := s.Create(t.Context(), "a.json", []byte("one"))
	kind(t, failure.Conflict, err)
}

func createAllLost(t *testing.T, s objstore.Store, p *Proxy) {
	p.Lose("PUT", -1)
	_, err := s.Create(t.Context(), "a", []byte("one"))
	require.Error(t, err)
	require.Contains(t, []failure.Kind{failure.Unknown, failure.Limited}, failure.KindOf(err), "%v", err)
	requireBody(t, s, "a", "one")
}

func replaceLost(t *testing.T, s objstore.Store, p *Proxy) {
	v := create(t, s, "a", "one")
	p.Lose("PUT", 1)
	v2, err := s.Replace(t.Context(), "a", []byte("two"), v)
	require.NoError(t, err)
	require.Equal(t, v2, requireBody(t, s, "a", "two"))
}

func deleteLost(t *testing.T, s objstore.Store, p *Proxy) {
	create(t, s, "a", "one")
	p.Lose("DELETE", 1)
	require.NoError(t, s.Delete(t.Context(), "a"))
	_, _, err := s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
}

func putDamaged(t *testing.T, s objstore.Store, p *Proxy) {
	p.DamageRequests("PUT", -1)
	_, err := s.Create(t.Context(), "a", bytes.Repeat([]byte("x"), 1<<10))
	require.Error(t, err)
	_, _, err = s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
}

func getDamagedOnce(t *testing.T, s objstore.Store, p *Proxy) {
	create(t, s, "a", "one")
	p.DamageAnswers("GET", 1)
	requireBody(t, s, "a", "one")
}

func getDamaged(t *testing.T, s objstore.Store, p *Proxy) {
	create(t, s, "a", "one")
	p.DamageAnswers("GET", -1)
	_, _, err := s.Get(t.Context(), "a")
	kind(t, failure.Corrupt, err)
}

func listLarge(t *testing.T, s objstore.Store, objects int) {
	t.Helper()
	work := make(chan int)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for worker := range errs {
		wg.Go(func() {
			for n := range work {
				if _, err := s.Create(t.Context(), fmt.Sprintf("journal/%06d.json", n), []byte("{}")); err != nil {
					errs[worker] = err
				}
			}
		})
	}
	for n := range objects {
		work <- n
	}
	close(work)
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	found, err := s.List(t.Context(), "journal/")
	require.NoError(t, err)
	require.Len(t, found, objects)
	for n, o := range found {
		require.Equal(t, fmt.Sprintf("journal/%06d.json", n), o.Key)
	}
}
