package objstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// A process whose lock is another one's writes no object, and reads what it likes.
func TestAskFirst_LockLost_WritesNothing(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	plain := objstoretest.NewMemory(nil)
	store := objstore.AskFirst(plain)
	version, err := store.Create(t.Context(), "there", []byte("1"))
	require.NoError(t, err)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return lost })
	for name, write := range map[string]func() error{
		"create":  func() error { _, err := store.Create(ctx, "new", []byte("2")); return err },
		"replace": func() error { _, err := store.Replace(ctx, "there", []byte("2"), version); return err },
		"delete":  func() error { return store.Delete(ctx, "there") },
		"version": func() error { return store.DeleteVersion(ctx, "there", version) },
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, write(), lost)
			all, err := store.List(ctx, "")
			require.NoError(t, err)
			require.Len(t, all, 1)
			body, _, err := store.Get(ctx, "there")
			require.NoError(t, err)
			require.Equal(t, "1", string(body))
		})
	}
}
