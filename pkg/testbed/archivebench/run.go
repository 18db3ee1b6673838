package archivebench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/bench"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// Config is what is measured.
type Config struct {
	Program  string // that has the command archive-image
	Dir      string // to work in; "" is the system's folder for temporary files
	Only     string // the name of one Data; "" is all of them
	Bytes    int64  // of each volume
	Files    int    // in a volume of many files
	Rounds   int
	Level    codec.Level
	Progress func(string)
}

// Figure is one figure, and what it must be. Zero bounds are none.
type Figure struct {
	Name, Unit, How        string
	Value, AtLeast, AtMost float64
}

// maxMemory is the most memory that a backup of one volume may take, in MiB; a restore may take twice as much.
const maxMemory = 256

// Run measures, and returns the figures. All that it wrote is removed, whether it ends well or not.
func Run(ctx context.Context, c Config) ([]Figure, error) {
	tools := []Tool{Tisnap(c.Program, string(c.Level))}
	for _, peer := range []func(context.Context) (Tool, error){Restic, Borg, Rclone, Zstd} {
		t, err := peer(ctx)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	dir, err := os.MkdirTemp(c.Dir, "archivebench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the folder is a temporary one
	var out []Figure
	for _, d := range AllData(c.Bytes, c.Files) {
		if c.Only != "" && c.Only != d.Name {
			continue
		}
		image := filepath.Join(dir, strings.ReplaceAll(d.Name, " ", "-")+".img")
		if err := d.Make(ctx, image); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		found, err := c.measure(ctx, dir, d.Name, image, tools)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		out = append(out, found...)
		switch d.Name {
		case dataRandom: // comparing with a base, nothing is compressed
			found, err = c.increment(ctx, dir, image)
		case dataFiles:
			found, err = c.asFiles(ctx, dir, image, tools[1:3])
		default:
			found = nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, once more: %w", d.Name, err)
		}
		out = append(out, found...)
		if err := os.Remove(image); err != nil {
			return nil, err
		}
	}
	return append(out, againstOneFile(out)...), nil
}

// asFiles lets peers back up the files of a mounted image, which is how they are mostly used, once.
func (c Config) asFiles(ctx context.Context, dir, image string, peers []Tool) (out []Figure, err error) {
	err = mounted(ctx, image, "loop,ro,noload", func(top string) error {
		for _, peer := range peers {
			t, err := peer.Try(ctx, dir, top)
			if err != nil {
				return err
			}
			name := dataFiles + ", mounted, " + peer.Name + ": "
			out = append(out,
				Figure{Name: name + "backup", Value: t.Backup.seconds, Unit: "CPU s", How: peer.Version},
				Figure{Name: name + "memory of a backup", Value: float64(t.Backup.memory) / (1 << 20), Unit: "MiB"},
				Figure{Name: name + "restore", Value: t.Restore.seconds, Unit: "CPU s", How: peer.Version},
				Figure{Name: name + "memory of a restore", Value: float64(t.Restore.memory) / (1 << 20), Unit: "MiB"})
		}
		return nil
	})
	return out, err
}

// againstOneFile are how much memory many files take, compared with one.
func againstOneFile(all []Figure) (out []Figure) {
	value := map[string]float64{}
	for _, f := range all {
		value[f.Name] = f.Value
	}
	for _, what := range []string{": memory of a backup, tisnap", ": memory of a restore, tisnap"} {
		if one := value[dataFile+what]; one > 0 && value[dataFiles+what] > 0 {
			out = append(out, Figure{Name: dataFiles + what + ", times that of one file", Value: value[dataFiles+what] / one,
				AtLeast: 0.95, AtMost: 1.05})
		}
	}
	return out
}

// measure lets the tools take turns, and compares their medians.
func (c Config) measure(ctx context.Context, dir, data, image string, tools []Tool) ([]Figure, error) {
	trials := make([][]Trial, len(tools))
	for round := range c.Rounds {
		for n := range tools {
			t, err := tools[n].Try(ctx, dir, image)
			if err != nil {
				return nil, err
			}
			trials[n] = append(trials[n], t)
			c.Progress(fmt.Sprintf("%s, round %d, %s: backup %.2f s of processors (%.2f s), restore %.2f s (%.2f s), %d MiB stored",
				data, round+1, tools[n].Name, t.Backup.seconds, t.Backup.wall, t.Restore.seconds, t.Restore.wall, t.Stored>>20))
		}
	}
	info, err := os.Stat(image)
	if err != nil {
		return nil, err
	}
	floor, err := c.floor(ctx, image, info.Size())
	if err != nil {
		return nil, err
	}
	var out []Figure
	mb := float64(info.Size()) / 1e6
	rate := func(n int, of func(Trial) float64) float64 { return mb / median(trials[n], of) }
	backup := func(t Trial) float64 { return t.Backup.seconds }
	restore := func(t Trial) float64 { return t.Restore.seconds }
	for n, t := range tools {
		memory := func(of func(Trial) use) float64 {
			return median(trials[n], func(t Trial) float64 { return float64(of(t).memory) / (1 << 20) })
		}
		backups := Figure{Name: data + ": memory of a backup, " + t.Name, Unit: "MiB", How: t.Version,
			Value: memory(func(t Trial) use { return t.Backup })}
		restores := Figure{Name: data + ": memory of a restore, " + t.Name, Unit: "MiB", How: t.Version,
			Value: memory(func(t Trial) use { return t.Restore })}
		if n == 0 {
			backups.AtMost, restores.AtMost = maxMemory, 2*maxMemory
		}
		out = append(out,
			Figure{Name: data + ": backup, " + t.Name, Unit: "MB per CPU s", Value: rate(n, backup), How: t.Version},
			Figure{Name: data + ": restore, " + t.Name, Unit: "MB per CPU s", Value: rate(n, restore), How: t.Version},
			Figure{Name: data + ": stored, " + t.Name, Unit: "MB", How: t.Version,
				Value: median(trials[n], func(t Trial) float64 { return float64(t.Stored) / 1e6 })},
			backups, restores)
	}
	borg := median(trials[2], func(t Trial) float64 { return float64(t.Stored) })
	stored := median(trials[0], func(t Trial) float64 { return float64(t.Stored) })
	return append(out,
		Figure{Name: data + ": backup, times restic's rate", Value: rate(0, backup) / rate(1, backup), AtLeast: 2},
		Figure{Name: data + ": restore, times restic's rate", Value: rate(0, restore) / rate(1, restore), AtLeast: 2},
		Figure{Name: data + ": backup, times borg's rate", Value: rate(0, backup) / rate(2, backup), AtLeast: 1.5},
		Figure{Name: data + ": restore, times borg's rate", Value: rate(0, restore) / rate(2, restore), AtLeast: 1.5},
		Figure{Name: data + ": backup, times the seconds of SHA-256, AES-GCM and codec alone",
			Value: median(trials[0], backup) / floor, AtMost: 1.3},
		Figure{Name: data + ": stored, times borg's", Value: stored / borg, AtMost: 1.01}), nil
}

// floor is how many seconds one core takes to hash, compress and encrypt all of the image's blocks that are not zeros.
func (c Config) floor(ctx context.Context, image string, size int64) (float64, error) {
	f, err := os.Open(image)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sample, err := bench.Take(ctx, &volume.Image{Bytes: size, From: f}, 256<<20)
	if err != nil {
		return 0, err
	}
	best := 0.0
	for range c.Rounds {
		r, err := bench.Measure(ctx, sample, []codec.Level{c.Level})
		if err != nil {
			return 0, err
		}
		best = max(best, r[0].Rate())
	}
	return float64(sample.Data()) / best, nil
}

// increment archives a volume, and then what became of it, and proves both.
func (c Config) increment(ctx context.Context, dir, image string) ([]Figure, error) {
	next, out := filepath.Join(dir, "next.img"), filepath.Join(dir, "next.out")
	repo := filepath.Join(dir, "increments")
	defer os.Remove(next) //nolint:errcheck // the folder is a temporary one
	defer os.Remove(out)  //nolint:errcheck // the same
	in, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if err := file(next, func(w io.Writer) error { return Increment(w, in, 5) }); err != nil {
		return nil, err
	}
	if err := InitImages(ctx, repo); err != nil {
		return nil, err
	}
	if _, err := CreateImage(ctx, repo, image, "first", "", c.Level); err != nil {
		return nil, err
	}
	before, err := stored(repo)
	if err != nil {
		return nil, err
	}
	stats, err := CreateImage(ctx, repo, next, "second", "first", c.Level)
	if err != nil {
		return nil, err
	}
	after, err := stored(repo)
	if err != nil {
		return nil, err
	}
	if err := RestoreImage(ctx, repo, out, "second"); err != nil {
		return nil, err
	}
	if err := same(next, out); err != nil {
		return nil, err
	}
	changed := float64(stats.Packed) * blockBytes
	return []Figure{{Name: "increment of 5 %: stored, times what changed", Value: float64(after-before) / changed,
		AtMost: 1.05, How: fmt.Sprintf("%d of %d blocks", stats.Packed, stats.Read)}}, nil
}

func median(trials []Trial, of func(Trial) float64) float64 {
	values := make([]float64, len(trials))
	for n, t := range trials {
		values[n] = of(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
