package ext4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// mount mounts an image until the returned function is called.
func mount(t *testing.T, image, options string) (folder string, unmount func()) {
	t.Helper()
	folder = t.TempDir()
	tool(t, "mount", "-o", options, image, folder)
	var once sync.Once
	unmount = func() {
		once.Do(func() { tool(t, "umount", folder) })
	}
	t.Cleanup(func() {
		once.Do(func() {
			_ = exec.CommandContext(context.WithoutCancel(t.Context()), "umount", "--lazy", folder).Run()
		})
	})
	return folder, unmount
}

// writer writes, replaces and deletes files as long as it may, and knows what has to survive a crash.
type writer struct {
	root   string
	random *rand.Rand
	worked chan<- struct{} // gets something, if there is room, after each file

	mu     sync.Mutex
	synced map[string][sha256.Size]byte // what is durable
}

func (w *writer) run(ctx context.Context) error {
	var live []string
	for i := 0; ctx.Err() == nil; i++ {
		name := filepath.Join(fmt.Sprint(i%5), fmt.Sprint(i))
		content := make([]byte, 1+w.random.IntN(1<<(8+w.random.IntN(13))))
		for at := range content {
			content[at] = byte(i + at/3)
		}
		if err := w.put(name, content, i%4 != 0); err != nil {
			return err
		}
		if live = append(live, name); len(live) > 24 {
			at := w.random.IntN(len(live))
			w.mu.Lock()
			delete(w.synced, filepath.Join(filepath.Base(w.root), live[at]))
			w.mu.Unlock()
			if err := os.Remove(filepath.Join(w.root, live[at])); err != nil {
				return err
			}
			live[at] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		select {
		case w.worked <- struct{}{}:
		default:
		}
	}
	return nil
}

func (w *writer) put(name string, content []byte, sync bool) error {
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && sync {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil && sync {
		w.mu.Lock()
		w.synced[filepath.Join(filepath.Base(w.root), name)] = sha256.Sum256(content)
		w.mu.Unlock()
	}
	return err
}

// durable is what of all writers has to survive.
func durable(writers []*writer) map[string][sha256.Size]byte {
	out := map[string][sha256.Size]byte{}
	for _, w := range writers {
		w.mu.Lock()
		maps.Copy(out, w.synced)
		w.mu.Unlock()
	}
	return out
}

// cut is an image of a mounted file system, and the files that have to be there.
type cut struct {
	image string
	files map[string][sha256.Size]byte
}

// writeAndCut writes to a mounted file system, and copies its image at some instants, which takes no time: its blocks are
// shared with the copy.
func writeAndCut(t *testing.T, image, folder string, cuts int) []cut {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	defer stop()
	group, ctx := errgroup.WithContext(running)
	worked := make(chan struct{}, 1)
	var writers []*writer
	for i := range 3 {
		w := &writer{root: filepath.Join(folder, fmt.Sprint("writer", i)), random: rand.New(rand.NewPCG(uint64(i), 1)),
			worked: worked, synced: map[string][sha256.Size]byte{}}
		writers = append(writers, w)
		group.Go(func() error { return w.run(ctx) })
	}
	var out []cut
	for i := range cuts {
		for range 60 + 7*i {
			select {
			case <-worked:
			case <-ctx.Done():
				require.NoError(t, group.Wait())
			}
		}
		c := cut{image: fmt.Sprint(image, i), files: durable(writers)}
		tool(t, "cp", "--reflink=always", image, c.image)
		still := durable(writers)
		maps.DeleteFunc(c.files, func(name string, _ [sha256.Size]byte) bool { _, ok := still[name]; return !ok })
		out = append(out, c)
	}
	stop()
	require.NoError(t, group.Wait())
	return out
}

// A file system that is copied at any instant while it is written to comes back without its free blocks: a mount replays
// its journal, every file is as without this, what was synced is there, and e2fsck finds nothing.
func TestRead_MountedAndWrittenTo_NothingIsLost(t *testing.T) {
	if os.Getenv(required) == "" {
		t.Skip("it mounts file systems; make test-archive runs it")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil || os.Geteuid() != 0 {
		t.Skip("only root, and with loop devices, can mount an image")
	}
	outer := filepath.Join(t.TempDir(), "outer")
	require.NoError(t, os.WriteFile(outer, nil, 0o600))
	require.NoError(t, os.Truncate(outer, 2<<30))
	tool(t, "mkfs.xfs", "-q", "-m", "reflink=1", outer)
	shared, unmount := mount(t, outer, "loop,nosuid")
	defer unmount()
	for name, how := range map[string]struct {
		mib             int64
		layout, options string
	}{
		"usual":             {100, "-b 4096 -J size=4", "loop"},
		"uninit_bg":         {100, "-b 2048 -O ^metadata_csum,uninit_bg,^64bit -J size=4", "loop,commit=1"},
		"data":              {100, "-b 1024 -O orphan_file -J size=8", "loop,data=journal"},
		"a tree of extents": {400, "-b 1024 -J size=160", "loop,nodelalloc"},
	} {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(shared, name)
			require.NoError(t, os.WriteFile(image, nil, 0o600))
			require.NoError(t, os.Truncate(image, how.mib<<20))
			tool(t, "mkfs.ext4", append(strings.Fields(how.layout), "-q", "-F", image)...)
			folder, unmount := mount(t, image, how.options)
			cuts := writeAndCut(t, image, folder, 4)
			unmount()
			for _, c := range cuts {
				requireNothingLost(t, c)
				require.NoError(t, os.Remove(c.image))
			}
			require.NoError(t, os.Remove(image))
		})
	}
}

// requireNothingLost compares a copy with one that has zeros in place of free blocks, as the kernel mounts both.
func requireNothingLost(t *testing.T, c cut) {
	t.Helper()
	m, free := read(t, c.image)
	require.Empty(t, m.Reason())
	require.Greater(t, m.Count(), int64(100<<20/ext4.BlockSize/10), "the writers leave room")
	replayed := mask(t, c.image, nil)
	reported, _ := command(t, "e2fsck", "-y", "-E", "journal_only", replayed).Output() // ends with 1: it changed something
	if want := freeBlocks(t, replayed); bytes.Contains(reported, []byte("orphaned inode")) {
		require.Subset(t, want, free, "besides, e2fsck frees files that were deleted while they were open")
	} else {
		require.Equal(t, want, free)
	}

	masked := mask(t, c.image, free)
	want, wanted := mount(t, c.image, "loop")
	got, unmount := mount(t, masked, "loop")
	kept := content(t, got)
	requireSame(t, content(t, want), kept)
	require.NotEmpty(t, c.files)
	for name, sum := range c.files {
		require.Equal(t, sum, sha256.Sum256(kept[name]), name)
	}
	wanted()
	unmount()
	tool(t, "e2fsck", "-fn", masked)
}
