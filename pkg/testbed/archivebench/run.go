package archivebench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/saturate"
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
	larger := AllData(timesLarger*c.Bytes, timesLarger*c.Files)
	for n, d := range AllData(c.Bytes, c.Files) {
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
		ofLarger, err := c.ofLarger(ctx, dir, larger[n], tools[0])
		if err != nil {
			return nil, fmt.Errorf("%s, larger: %w", d.Name, err)
		}
		out = append(append(out, found...), ofLarger)
		switch d.Name {
		case dataTiKV:
			found, err = c.bothCores(ctx, dir, d.Name, image, tools[0])
		case dataRandom: // comparing with a base, nothing is compressed
			found, err = c.increment(ctx, dir, image, tools[:3])
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
	info, err := os.Stat(image)
	if err != nil {
		return nil, err
	}
	trials, err := c.inTurns(data, tools, func(t *Tool) (Trial, error) { return t.Try(ctx, dir, image) })
	if err != nil {
		return nil, err
	}
	least, err := c.leasts(ctx, dir, data, image, trials[0])
	return append(compared(data, float64(info.Size())/1e6, tools, trials), least...), err
}

// inTurns tries each tool in each round.
func (c Config) inTurns(data string, tools []Tool, try func(*Tool) (Trial, error)) ([][]Trial, error) {
	trials := make([][]Trial, len(tools))
	for round := range c.Rounds {
		for n := range tools {
			t, err := try(&tools[n])
			if err != nil {
				return nil, err
			}
			trials[n] = append(trials[n], t)
			c.Progress(fmt.Sprintf("%s, round %d, %s: backup %.2f s of processors (%.2f s), restore %.2f s (%.2f s), %d MiB stored",
				data, round+1, tools[n].Name, t.Backup.seconds, t.Backup.wall, t.Restore.seconds, t.Restore.wall, t.Stored>>20))
		}
	}
	return trials, nil
}

// compared compares the medians of the tools, of which the first three are tisnap, restic and borg, for so many MB.
func compared(data string, mb float64, tools []Tool, trials [][]Trial) (out []Figure) {
	rate := func(n int, of func(Trial) float64) float64 { return mb / median(trials[n], of) }
	backup := func(t Trial) float64 { return t.Backup.seconds }
	restore := func(t Trial) float64 { return t.Restore.seconds }
	stored := func(n int) float64 { return median(trials[n], func(t Trial) float64 { return float64(t.Stored) }) }
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
			Figure{Name: data + ": stored, " + t.Name, Unit: "MB", How: t.Version, Value: stored(n) / 1e6},
			backups, restores)
	}
	return append(out,
		Figure{Name: data + ": backup, times restic's rate", Value: rate(0, backup) / rate(1, backup), AtLeast: 2},
		Figure{Name: data + ": restore, times restic's rate", Value: rate(0, restore) / rate(1, restore), AtLeast: 2},
		Figure{Name: data + ": backup, times borg's rate", Value: rate(0, backup) / rate(2, backup), AtLeast: 1.5},
		Figure{Name: data + ": restore, times borg's rate", Value: rate(0, restore) / rate(2, restore), AtLeast: 1.5},
		Figure{Name: data + ": stored, times borg's", Value: stored(0) / stored(2), AtMost: 1.01})
}

// increment lets the tools that find what is equal back up what became of a volume.
func (c Config) increment(ctx context.Context, dir, image string, tools []Tool) ([]Figure, error) {
	next := filepath.Join(dir, "next.img")
	defer os.Remove(next) //nolint:errcheck // the folder is a temporary one
	in, err := os.Open(image)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	changed := 0
	if err := file(next, func(w io.Writer) (err error) {
		changed, err = Increment(w, in, 5)
		return err
	}); err != nil {
		return nil, err
	}
	const data = "increment of 5 %"
	trials, err := c.inTurns(data, tools, func(t *Tool) (Trial, error) { return t.TryNext(ctx, dir, image, next) })
	if err != nil {
		return nil, err
	}
	stored := median(trials[0], func(t Trial) float64 { return float64(t.Stored) })
	return append(compared(data, float64(info.Size())/1e6, tools, trials), Figure{
		Name: data + ": stored, times what changed", Value: stored / float64(changed*blockBytes), AtMost: 1.05,
		How: fmt.Sprintf("%d of %d blocks", changed, info.Size()/blockBytes),
	}), nil
}

// inMemory is where Linux keeps files in memory, if it has room for so many times the size of an image, and otherwise
// the folder that is given.
func inMemory(dir, image string, times int64) (string, error) {
	const memory = "/dev/shm"
	info, err := os.Stat(image)
	if err != nil {
		return "", err
	}
	var fs syscall.Statfs_t
	there := syscall.Statfs(memory, &fs) == nil
	if there && fs.Bavail*saturate.To[uint64](fs.Bsize) >= saturate.To[uint64](times*info.Size()) {
		return memory, nil
	}
	return dir, nil
}

// bothCores compares how fast a tool backs an image up with two processors and with one, with image and repository in
// memory, if there is room: a disk may take as long as two processors do. Of both the fastest round counts: whatever
// else the machine or its host does only adds.
func (c Config) bothCores(ctx context.Context, dir, data, image string, t Tool) ([]Figure, error) {
	where, err := inMemory(dir, image, 3) // the image, at most as much in the repository, and what is restored
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(where, "archivebench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the folder is a temporary one
	there := filepath.Join(work, filepath.Base(image))
	if err := copyFile(there, image); err != nil {
		return nil, err
	}
	syscall.Sync() // so that nothing writes in the background what was measured before
	one := t
	one.backup = slices.Concat([]string{"taskset", "--cpu-list", "0"}, t.backup)
	trials, err := c.inTurns(data+", two cores and one", []Tool{t, one}, func(t *Tool) (Trial, error) {
		return t.Try(ctx, work, there)
	})
	if err != nil {
		return nil, err
	}
	wall := func(n int) float64 {
		return slices.MinFunc(trials[n], func(a, b Trial) int { return cmp.Compare(a.Backup.wall, b.Backup.wall) }).Backup.wall
	}
	return []Figure{{
		Name: data + ": backup, times as fast with two cores as with one", Value: wall(1) / wall(0), AtLeast: 1.8,
		How: fmt.Sprintf("%.2f s with two, in %s", wall(0), where),
	}}, nil
}

// copyFile copies a file.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return file(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

func median(trials []Trial, of func(Trial) float64) float64 {
	values := make([]float64, len(trials))
	for n, t := range trials {
		values[n] = of(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
