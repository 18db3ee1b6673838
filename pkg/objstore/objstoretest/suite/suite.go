package suite

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// New makes an empty store for one test.
type New func(t *testing.T) objstore.Store

// Run checks the whole contract, each part on a store of its own.
func Run(t *testing.T, open New) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, objstore.Store){
		"Create_New_CanBeRead":              createNew,
		"Create_Existing_IsConflict":        createExisting,
		"Create_Race_OneWins":               createRace,
		"Replace_Version_IsCompared":        replaceVersion,
		"Replace_Missing_IsConflict":        replaceMissing,
		"Replace_Race_OneWins":              replaceRace,
		"Replace_Counter_LosesNoIncrement":  counter,
		"Get_Missing_IsNotFound":            getMissing,
		"Get_Content_IsExact":               contents,
		"GetRange_Within_IsExact":           getRange,
		"List_Prefix_IsSortedAndWhole":      list,
		"ListAfter_BeginsBehindIt":          listAfter,
		"List_AgreesWithGet":                listVersions,
		"List_Nothing_IsEmpty":              listNothing,
		"Delete_Missing_Succeeds":           deleteObject,
		"DeleteVersion_Listed_IsDeleted":    deleteVersion,
		"Keys_Unsafe_AreUsage":              unsafeKeys,
		"Context_Ended_IsItsError":          endedContext,
		"Bodies_Changed_DoNotReachTheStore": aliasing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

func kind(t *testing.T, want failure.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want, failure.KindOf(err), "%v", err)
}

func create(t *testing.T, s objstore.Store, key, body string) objstore.Version {
	t.Helper()
	v, err := s.Create(t.Context(), key, []byte(body))
	require.NoError(t, err)
	require.NotEmpty(t, v)
	return v
}

func requireBody(t *testing.T, s objstore.Store, key, want string) objstore.Version {
	t.Helper()
	body, v, err := s.Get(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, want, string(body))
	return v
}

func createNew(t *testing.T, s objstore.Store) {
	v := create(t, s, "a/b.json", "one")
	require.Equal(t, v, requireBody(t, s, "a/b.json", "one"))
}

func createExisting(t *testing.T, s objstore.Store) {
	create(t, s, "a", "one")
	for _, body := range []string{"two", "one"} {
		_, err := s.Create(t.Context(), "a", []byte(body))
		kind(t, failure.Conflict, err)
	}
	requireBody(t, s, "a", "one")
}

func getRange(t *testing.T, s objstore.Store) {
	create(t, s, "a/b", "0123456789")
	create(t, s, "empty", "")
	for _, row := range []struct {
		key            string
		offset, length int64
		want           string
		kind           failure.Kind
	}{
		{"a/b", 0, 10, "0123456789", 0},
		{"a/b", 3, 4, "3456", 0},
		{"a/b", 9, 1, "9", 0},
		{"a/b", 9, 2, "", failure.Corrupt},
		{"a/b", 10, 1, "", failure.Corrupt},
		{"a/b", math.MaxInt64 - 1, 1, "", failure.Corrupt},
		{"empty", 0, 1, "", failure.Corrupt},
		{"a", 0, 1, "", failure.NotFound},
		{"a/b", 3, 0, "", failure.Usage},
		{"a/b", -1, 1, "", failure.Usage},
	} {
		t.Run(fmt.Sprintf("%d bytes of %s from %d", row.length, row.key, row.offset), func(t *testing.T) {
			body := make([]byte, row.length)
			err := s.GetRange(t.Context(), row.key, row.offset, body)
			if row.kind != 0 {
				kind(t, row.kind, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, string(body))
		})
	}
}

// race runs n at once and returns how many succeeded; all others have to be Conflict.
func race(t *testing.T, n int, do func(i int) error) int {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		kind(t, failure.Conflict, err)
	}
	return won
}

func createRace(t *testing.T, s objstore.Store) {
	won := race(t, 16, func(i int) error {
		_, err := s.Create(t.Context(), "a/lock", fmt.Append(nil, i))
		return err
	})
	require.Equal(t, 1, won)
}

func replaceVersion(t *testing.T, s objstore.Store) {
	v1 := create(t, s, "a", "one")
	v2, err := s.Replace(t.Context(), "a", []byte("two"), v1)
	require.NoError(t, err)
	require.NotEqual(t, v1, v2)
	require.Equal(t, v2, requireBody(t, s, "a", "two"))
	_, err = s.Replace(t.Context(), "a", []byte("three"), v1)
	kind(t, failure.Conflict, err)
	requireBody(t, s, "a", "two")
}

func replaceMissing(t *testing.T, s objstore.Store) {
	v := create(t, s, "a", "one")
	_, err := s.Replace(t.Context(), "b", []byte("two"), v)
	kind(t, failure.Conflict, err)
	require.NoError(t, s.Delete(t.Context(), "a"))
	_, err = s.Replace(t.Context(), "a", []byte("two"), v)
	kind(t, failure.Conflict, err)
	_, _, err = s.Get(t.Context(), "a")
	kind(t, failure.NotFound, err)
}

func replaceRace(t *testing.T, s objstore.Store) {
	v := create(t, s, "a", "start")
	won := race(t, 16, func(i int) error {
		_, err := s.Replace(t.Context(), "a", fmt.Append(nil, i), v)
		return err
	})
	require.Equal(t, 1, won)
}

func counter(t *testing.T, s objstore.Store) {
	create(t, s, "n", "")
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			for range 5 {
				if errs[i] = increment(t.Context(), s); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	body, _, err := s.Get(t.Context(), "n")
	require.NoError(t, err)
	require.Len(t, body, 20)
}

func increment(ctx context.Context, s objstore.Store) error {
	for {
		body, v, err := s.Get(ctx, "n")
		if err != nil {
			return err
		}
		_, err = s.Replace(ctx, "n", append(body, 'x'), v)
		if !failure.Is(err, failure.Conflict) {
			return err
		}
	}
}

func getMissing(t *testing.T, s objstore.Store) {
	create(t, s, "a/b", "one")
	for _, key := range []string{"x", "a", "a/b/c", "A/B"} {
		_, _, err := s.Get(t.Context(), key)
		if key == "a/b/c" && failure.Is(err, failure.Usage) {
			continue // a file system cannot have a key below a key
		}
		kind(t, failure.NotFound, err)
	}
}

func contents(t *testing.T, s objstore.Store) {
	for name, body := range map[string][]byte{
		"empty": {}, "binary": {0, 1, 255, '\r', '\n', 0}, "large": bytes.Repeat([]byte("0123456789abcdef"), 1<<17),
	} {
		_, err := s.Create(t.Context(), "c/"+name, body)
		require.NoError(t, err)
		got, _, err := s.Get(t.Context(), "c/"+name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, got), name)
	}
}

func list(t *testing.T, s objstore.Store) {
	keys := []string{"p/a", "p/a-b", "p/b/c", "p/b/d", "p/é ü+&=%", "p2", "q"}
	for i := range 25 {
		keys = append(keys, fmt.Sprintf("many/%03d.json", i))
	}
	for _, key := range keys {
		create(t, s, key, key)
	}
	for prefix, want := range map[string][]string{
		"p/":     {"p/a", "p/a-b", "p/b/c", "p/b/d", "p/é ü+&=%"},
		"p/b":    {"p/b/c", "p/b/d"},
		"p":      {"p/a", "p/a-b", "p/b/c", "p/b/d", "p/é ü+&=%", "p2"},
		"p/b/c":  {"p/b/c"},
		"none":   nil,
		"many/0": keys[7:],
		"":       sorted(keys),
	} {
		found, err := s.List(t.Context(), prefix)
		require.NoError(t, err)
		var got []string
		for _, o := range found {
			got = append(got, o.Key)
			require.EqualValues(t, len(o.Key), o.Size)
			require.WithinDuration(t, time.Now(), o.Modified, time.Hour)
		}
		require.Equal(t, want, got, prefix)
	}
}

func listAfter(t *testing.T, s objstore.Store) {
	keys := []string{"runs/1", "runs/2/a", "runs/2/b", "runs/é +&", "z"}
	for i := range 7 { // the stand-in gives three a page
		keys = append(keys, fmt.Sprintf("runs/many/%02d", i))
	}
	for _, key := range keys {
		create(t, s, key, key)
	}
	keys = sorted(keys)
	for _, after := range []string{"", "runs/", "runs/1", "runs/1z", "runs/2", "runs/2/a", "runs/many/03", "runs/many/06", "runs/é +&", "runs/~", "runs0"} {
		var want []string
		for _, key := range keys {
			if strings.HasPrefix(key, "runs/") && key > after {
				want = append(want, key)
			}
		}
		found, err := s.ListAfter(t.Context(), "runs/", after)
		require.NoError(t, err)
		require.Equal(t, want, keysOf(found), "after %q", after)
	}
}

func keysOf(objects []objstore.Object) (keys []string) {
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}

func listVersions(t *testing.T, s objstore.Store) {
	create(t, s, "a/1", "one")
	found, err := s.List(t.Context(), "a/")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, requireBody(t, s, "a/1", "one"), found[0].Version)
	_, err = s.Replace(t.Context(), "a/1", []byte("two"), found[0].Version)
	require.NoError(t, err)
}

func listNothing(t *testing.T, s objstore.Store) {
	found, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, found)
}

func deleteObject(t *testing.T, s objstore.Store) {
	require.NoError(t, s.Delete(t.Context(), "x"))
	create(t, s, "a/b", "one")
	require.NoError(t, s.Delete(t.Context(), "a"), "not a key")
	requireBody(t, s, "a/b", "one")
	require.NoError(t, s.Delete(t.Context(), "a/b"))
	require.NoError(t, s.Delete(t.Context(), "a/b"))
	_, _, err := s.Get(t.Context(), "a/b")
	kind(t, failure.NotFound, err)
	create(t, s, "a/b", "again")
}

// RunConditionalDeletes checks what a store makes of DeleteVersion whose server compares versions.
func RunConditionalDeletes(t *testing.T, s objstore.Store) {
	t.Helper()
	v1 := create(t, s, "a/b", "one")
	v2, err := s.Replace(t.Context(), "a/b", []byte("two"), v1)
	require.NoError(t, err)
	kind(t, failure.Conflict, s.DeleteVersion(t.Context(), "a/b", v1))
	requireBody(t, s, "a/b", "two")
	require.NoError(t, s.DeleteVersion(t.Context(), "a/b", v2))
	_, _, err = s.Get(t.Context(), "a/b")
	kind(t, failure.NotFound, err)
}

func deleteVersion(t *testing.T, s objstore.Store) {
	v := create(t, s, "a/b", "one")
	kind(t, failure.Usage, s.DeleteVersion(t.Context(), "a/b", ""))
	found, err := s.List(t.Context(), "a/")
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, s.DeleteVersion(t.Context(), "a/b", found[0].Version))
	require.NoError(t, s.DeleteVersion(t.Context(), "a/b", v), "it is gone")
	_, _, err = s.Get(t.Context(), "a/b")
	kind(t, failure.NotFound, err)
}

func unsafeKeys(t *testing.T, s objstore.Store) {
	for _, key := range []string{"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\x00b", "a\nb", `a\b`, ".tisnap-x", "\xff"} {
		_, err := s.Create(t.Context(), key, nil)
		kind(t, failure.Usage, err)
		_, err = s.Replace(t.Context(), key, nil, "v")
		kind(t, failure.Usage, err)
		_, _, err = s.Get(t.Context(), key)
		kind(t, failure.Usage, err)
		kind(t, failure.Usage, s.Delete(t.Context(), key))
		kind(t, failure.Usage, s.DeleteVersion(t.Context(), key, "v"))
	}
	found, err := s.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, found)
}

func endedContext(t *testing.T, s objstore.Store) {
	v := create(t, s, "a", "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, "b", nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Replace(ctx, "a", nil, v)
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.List(ctx, "")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, "a"), context.Canceled)
	require.ErrorIs(t, s.DeleteVersion(ctx, "a", v), context.Canceled)
	requireBody(t, s, "a", "one")
}

func aliasing(t *testing.T, s objstore.Store) {
	body := []byte("one")
	_, err := s.Create(t.Context(), "a", body)
	require.NoError(t, err)
	body[0] = 'X'
	got, _, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "one", string(got))
	got[0] = 'X'
	requireBody(t, s, "a", "one")
}

func sorted(keys []string) []string { return slices.Sorted(slices.Values(keys)) }
