package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// KillsConfig is one testbed on which archives are killed. All fields but Prunes are required.
type KillsConfig struct {
	Tisnap string // path of the shipped program
	Seed   int64
	Kills  int
	Prunes bool // run beside each archive that is resumed, and after it
}

// KillsResult is what the kills met.
type KillsResult struct {
	Kills, Late int   // processes that were killed, and those that had ended before
	Reads       int64 // blocks that an archive reads which is not killed
	MostAgain   int64 // most blocks that were read twice after one kill
	Output      string
}

// What is random in each snapshot of the baseline, so that an archive fills more than one pack.
const randomBlocks = 100

// inFlight is the most blocks that a process may have read and not stored: those of the packs of two packers and of the
// uploads, here of random bytes, and six chunks of 16 that are read ahead of them. It is 291 for storage in the local
// network, and 300 with the packs for one far away, which a busy machine may look like.
const inFlight = 12*17 + 6*16

// Kills archives a backup again and again, each time into a new repository, by the shipped program in a process that is
// killed at a random instant. The same command, given once more, has to end with 0, with one archive that has each block
// of the snapshots, and may read no block twice that was in a stored pack. An error names what did not hold.
func Kills(ctx context.Context, cfg KillsConfig) (*KillsResult, error) {
	r := &KillsResult{}
	dir, err := os.MkdirTemp("", "tisnap-kills-")
	if err != nil {
		return r, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	w, err := newWorld(ctx, dir, &Program{Path: cfg.Tisnap}, 1)
	if err != nil {
		return r, err
	}
	defer w.bed.Close()
	rng := rand.New(rand.NewPCG(uint64(cfg.Seed), 17))
	err = w.kills(ctx, rng, cfg, r)
	r.Output = w.out.String()
	return r, err
}

func (w *world) kills(ctx context.Context, rng *rand.Rand, cfg KillsConfig, r *KillsResult) error {
	n := cfg.Kills
	if err := w.fillSnapshots(ctx, rng); err != nil {
		return err
	}
	reads, whole, err := w.archived(ctx, rng, 0, false)
	if err != nil {
		return err
	}
	for r.Reads = reads; r.Kills < n; {
		if r.Late > 2*n {
			return fmt.Errorf("%d of %d processes had ended before they were to be killed", r.Late, r.Late+r.Kills)
		}
		at := 1 + time.Duration(rng.Int64N(int64(whole)))
		reads, _, err := w.archived(ctx, rng, at, cfg.Prunes)
		switch {
		case errors.Is(err, errLate):
			r.Late++
			whole = at // or the next ones may be late, too
			continue
		case err != nil:
			return fmt.Errorf("killed after %s of %s: %w", at, whole, err)
		}
		r.Kills++
		again := reads - r.Reads
		r.MostAgain = max(r.MostAgain, again)
		if again > inFlight {
			return fmt.Errorf("killed after %s of %s: %d blocks of %d were read twice, more than %d", at, whole, again, r.Reads, inFlight)
		}
	}
	return nil
}

// errLate is of a process that had ended before it was to be killed.
var errLate = errors.New("ended before the kill")

// archived archives the baseline into a new repository, in a process that is killed after killAt unless that is 0, and in
// another one. With prunes these run beside it, and are killed. It proves the archive, with prunes also that of what is
// then forgotten nothing stays, and returns how many blocks both processes have read, and what the second one took.
func (w *world) archived(
	ctx context.Context, rng *rand.Rand, killAt time.Duration, prunes bool,
) (reads int64, took time.Duration, err error) {
	s := w.scene(Archive)
	if err := s.prepare(ctx); err != nil {
		return 0, 0, err
	}
	var read atomic.Int64
	w.faults.Watch(func(point string) *fault.Rule {
		if point == "ebs.GetSnapshotBlock" {
			read.Add(1)
		}
		return nil
	})
	defer w.faults.Watch(nil)
	if killAt > 0 {
		if err := s.killed(ctx, killAt); err != nil {
			return 0, 0, err
		}
	}
	pruned := func() error { return nil }
	if prunes {
		pruned = s.prunesBeside(ctx, rng)
	}
	begin := time.Now()
	err = s.succeeds(ctx, s.args()...)
	took = time.Since(begin)
	w.faults.Watch(nil)
	if err := errors.Join(err, pruned(), ctx.Err()); err != nil {
		return 0, 0, err
	}
	if err := s.verifyArchived(ctx); err != nil || !prunes {
		return read.Load(), took, err
	}
	return read.Load(), took, s.verifyPruned(ctx, rng)
}

// killed runs the command in a process that is killed after a time. It returns errLate if that had ended with 0 before.
func (s *scene) killed(ctx context.Context, after time.Duration) error {
	timer := time.AfterFunc(after, func() { s.program.Signal(syscall.SIGKILL) })
	code, err := s.tisnap(ctx, s.args()...)
	timer.Stop()
	switch {
	case err != nil:
		return err
	case code == 0:
		return errLate
	case code != -1:
		return fmt.Errorf("the program that was killed ended with %d", code)
	}
	return s.expire(ctx, s.locked())
}

// fillSnapshots adds random blocks to the snapshots of the baseline.
func (w *world) fillSnapshots(ctx context.Context, rng *rand.Rand) error {
	m, err := catalog.Catalog{Store: w.store}.Load(ctx, cluster.BackupID(baseline))
	if err != nil {
		return err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	random, block := rand.NewChaCha8(seed), make([]byte, volume.BlockSize)
	for _, id := range m.SnapshotIDs() {
		image, err := w.bed.EC2.Image(id)
		if err != nil {
			return err
		}
		device, last := disk.New(image.Size()), int64(0)
		for _, last = range image.Allocated(volume.BlockSize) {
			if _, err := image.ReadAt(block, last*volume.BlockSize); err != nil {
				return err
			}
			if _, err := device.WriteAt(block, last*volume.BlockSize); err != nil {
				return err
			}
		}
		for i := range int64(randomBlocks) {
			_, _ = random.Read(block) // has no error
			if _, err := device.WriteAt(block, (last+1+2*i)*volume.BlockSize); err != nil {
				return err
			}
		}
		if err := w.bed.EC2.SetImage(id, disk.Cut(device)[0]); err != nil {
			return err
		}
	}
	return nil
}
