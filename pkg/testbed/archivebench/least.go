package archivebench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tisnap/tisnap/pkg/archive/bench"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// timesLarger is how many times as large as the others the volume is that is compared with its floor.
const timesLarger = 4

// alone is what the floor of an archive is made of.
const alone = "SHA-256, AES-GCM and codec alone"

// leasts compare a tool's backups with the floor, and with a loop that does as little as an archive can, which is
// compared with the floor, too.
func (c Config) leasts(ctx context.Context, dir, data, image string, trials []Trial) ([]Figure, error) {
	floor, err := c.floor(ctx, image)
	if err != nil {
		return nil, err
	}
	loop, err := c.loop(ctx, dir, image)
	if err != nil {
		return nil, err
	}
	backup := median(trials, func(t Trial) float64 { return t.Backup.seconds })
	return []Figure{
		{
			Name:  data + ": backup, times the seconds of " + alone,
			Value: backup / floor, How: fmt.Sprintf("which take %.2f s", floor),
		},
		{
			Name:  data + ": backup, times the seconds of one loop that reads, too, and writes",
			Value: backup / loop, How: fmt.Sprintf("which takes %.2f s", loop),
		},
		{Name: data + ": this loop, times the seconds of " + alone, Value: loop / floor},
	}, nil
}

// ofLarger compares the backup of a larger volume with its floor: the start of a process, and the first use of its memory,
// take as long for a volume of any size, and are a quarter of the floor of the others.
func (c Config) ofLarger(ctx context.Context, dir string, d Data, t Tool) (Figure, error) {
	image := filepath.Join(dir, "larger.img")
	defer os.Remove(image) //nolint:errcheck // the folder is a temporary one
	if err := d.Make(ctx, image); err != nil {
		return Figure{}, err
	}
	name := fmt.Sprintf("%s, %d times as large", d.Name, timesLarger)
	trials, err := c.inTurns(name, []Tool{t}, func(t *Tool) (Trial, error) { return t.Try(ctx, dir, image) })
	if err != nil {
		return Figure{}, err
	}
	floor, err := c.floor(ctx, image)
	if err != nil {
		return Figure{}, err
	}
	return Figure{
		Name:   name + ": backup, times the seconds of " + alone,
		Value:  median(trials[0], func(t Trial) float64 { return t.Backup.seconds }) / floor,
		AtMost: 1.3, How: fmt.Sprintf("which take %.2f s", floor),
	}, nil
}

// floor is how many processor seconds it takes to hash, compress and encrypt all of the image's blocks that are not zeros,
// and nothing else.
func (c Config) floor(ctx context.Context, image string) (float64, error) {
	in, err := volume.OpenFile(image)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	sample, err := bench.Take(ctx, in, 256<<20)
	if err != nil {
		return 0, err
	}
	return c.fastest(func(int) (float64, error) {
		before := processorSeconds()
		r, err := bench.Measure(ctx, sample, []codec.Level{c.Level})
		if err != nil {
			return 0, err
		}
		return (processorSeconds() - before) * float64(sample.Data()) / float64(r[0].Raw), nil
	})
}

// loop is how many processor seconds the least archive takes: one goroutine reads an image, block by block, past the page
// cache, hashes, compresses and encrypts what is not zeros, and writes packs. It has no map, and finds nothing that is
// equal.
func (c Config) loop(ctx context.Context, dir, image string) (float64, error) {
	work, err := os.MkdirTemp(dir, "loop")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the folder is a temporary one
	return c.fastest(func(round int) (float64, error) {
		before := processorSeconds()
		err := archiveInALoop(ctx, filepath.Join(work, fmt.Sprint(round)), image, c.Level)
		return processorSeconds() - before, err
	})
}

// fastest is the least of all rounds.
func (c Config) fastest(do func(round int) (float64, error)) (float64, error) {
	least := math.Inf(1)
	for round := range c.Rounds {
		seconds, err := do(round)
		if err != nil {
			return 0, err
		}
		least = min(least, seconds)
	}
	return least, nil
}

// archiveInALoop archives an image in one loop.
func archiveInALoop(ctx context.Context, repo, image string, level codec.Level) error {
	in, err := volume.OpenFile(image)
	if err != nil {
		return err
	}
	defer in.Close()
	l := leastArchive{}
	if l.store, err = folder(ctx, repo); err != nil {
		return err
	}
	if l.keys, err = format.NewKeyring(); err != nil {
		return err
	}
	if l.encoder, err = codec.NewEncoder(level); err != nil {
		return err
	}
	l.memory.data = repository.Room(repository.DefaultPackSize + 2*format.MaxSealed)[:0]
	block := repository.Room(blockBytes)
	for at := int64(0); at < in.Size(); at += blockBytes {
		raw := block[:min(blockBytes, in.Size()-at)]
		if _, err := in.From.ReadAt(raw, at); err != nil {
			return err
		}
		if volume.IsZero(raw) {
			continue
		}
		if err := l.add(ctx, raw); err != nil {
			return err
		}
	}
	return l.flush(ctx)
}

// leastArchive has the packs of an archive that has no map.
type leastArchive struct {
	store   objstore.Store
	keys    *format.Keyring
	encoder *codec.Encoder
	memory  inPlace
	pack    *format.PackWriter // nil between two packs
}

func (l *leastArchive) add(ctx context.Context, raw []byte) (err error) {
	if l.pack == nil {
		if l.pack, err = format.NewPackWriter(&l.memory, l.keys, format.Source{}, format.NewPackName()); err != nil {
			return err
		}
	}
	digest := sha256.Sum256(raw)
	id, packed := l.encoder.Encode(raw)
	if _, err := l.pack.Add(format.Origin{}, digest, len(raw), id, packed); err != nil {
		return err
	}
	if l.pack.Size() < repository.DefaultPackSize {
		return nil
	}
	return l.flush(ctx)
}

func (l *leastArchive) flush(ctx context.Context) error {
	if l.pack == nil {
		return nil
	}
	if err := l.pack.Close(); err != nil {
		return err
	}
	_, err := l.store.Create(ctx, l.pack.Ref().Name.Path(), l.memory.data)
	l.pack, l.memory.data = nil, l.memory.data[:0]
	return err
}

// inPlace is a pack in memory, whose blocks are sealed where they stay.
type inPlace struct{ data []byte }

func (p *inPlace) AvailableBuffer() []byte { return p.data[len(p.data):] }

// Write takes what AvailableBuffer has by now, and copies what is elsewhere: a pack's header and trailer.
func (p *inPlace) Write(b []byte) (int, error) {
	at := len(p.data)
	p.data = p.data[:at+len(b)]
	if &b[0] != &p.data[at] {
		copy(p.data[at:], b)
	}
	return len(b), nil
}

// processorSeconds are those of this process so far.
func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it cannot fail for the process itself
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
