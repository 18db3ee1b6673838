package importer_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/importer"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/runlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// perPack is how many blocks that do not compress fill a pack.
const perPack = 4

// lab is a repository.
type lab struct {
	*repository.Repository
	objects  *hooked
	identity *age.X25519Identity
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{objects: &hooked{Memory: objstoretest.NewMemory(nil)}}
	var err error
	l.Repository, l.identity, err = archivetest.New(t.Context(), l.objects, perPack*volume.BlockSize)
	require.NoError(t, err)
	return l
}

// hooked is a store that asks before each Create and Delete, one at a time.
type hooked struct {
	*objstoretest.Memory
	mu     sync.Mutex
	before func(key string) error // nil is not asked
}

func (h *hooked) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if err := h.ask(key); err != nil {
		return "", err
	}
	return h.Memory.Create(ctx, key, body)
}

func (h *hooked) Delete(ctx context.Context, key string) error {
	if err := h.ask("delete " + key); err != nil {
		return err
	}
	return h.Memory.Delete(ctx, key)
}

func (h *hooked) ask(key string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.before == nil {
		return nil
	}
	return h.before(key)
}

// hook sets what is asked.
func (h *hooked) hook(before func(key string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

// content has so many bytes, of which each fourth block is zeros.
func content(seed byte, size int) []byte {
	out := make([]byte, size)
	random := rand.NewChaCha8([32]byte{seed})
	for at := 0; at < size; at += volume.BlockSize {
		if at/volume.BlockSize%4 != 3 {
			_, _ = random.Read(out[at:min(size, at+volume.BlockSize)])
		}
	}
	return out
}

func inFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// options import files, and "-", as store 1's v0, v1, ….
func options(name string, paths ...string) importer.Options {
	o := importer.Options{Name: name, Run: "run-1", Level: codec.S2, LockWait: runlock.NoWait}
	for i, path := range paths {
		o.Sources = append(o.Sources, importer.Source{Store: 1, Role: cluster.Role(fmt.Sprintf("v%d", i)), Path: path})
	}
	return o
}

func (l *lab) run(t *testing.T, o importer.Options, stdin ...byte) (*importer.Result, error) {
	t.Helper()
	return importer.Run(t.Context(), importer.Deps{Repository: l.Repository, Stdin: bytes.NewReader(stdin)}, o)
}

// requireIs requires that volume v of store 1 is that.
func (l *lab) requireIs(t *testing.T, archive string, v int, want []byte) {
	t.Helper()
	a, err := l.Archive(t.Context(), archive)
	require.NoError(t, err)
	require.True(t, a.Imported())
	var out bytes.Buffer
	require.NoError(t, volume.Stream(t.Context(), l.Repository, a.Stores[0].Volumes[v], &out, 2))
	require.True(t, bytes.Equal(want, out.Bytes()), "volume %d differs", v)
}

// keys are those of the repository that begin so.
func (l *lab) keys(t *testing.T, prefix string) (out []string) {
	t.Helper()
	objects, err := l.objects.List(t.Context(), prefix)
	require.NoError(t, err)
	for _, o := range objects {
		out = append(out, o.Key)
	}
	return out
}

// prune prunes without regard to age, and breaks no lease unless all are to be. The store's hook is not asked.
func (l *lab) prune(t *testing.T, breaks bool) *prune.Report {
	t.Helper()
	r, err := repository.Open(t.Context(), l.objects.Memory, l.identity)
	require.NoError(t, err)
	o := prune.Options{BreakAfter: -1, MaxUnused: 1}
	if breaks {
		o.BreakAfter = 0
	}
	report, err := prune.Run(t.Context(), r, o)
	require.NoError(t, err)
	return report
}

func isPack(key string) bool { return strings.HasPrefix(key, format.PackPrefix) }
