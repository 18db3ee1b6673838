package archivebench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tool is a backup program: it makes a repository in a folder, puts a volume's image into it, and gives it back.
type Tool struct {
	Name    string
	Version string // and the settings that matter
	init    []string
	backup  []string
	restore []string
	env     []string

	// next backs up what became of a volume, and restoreNext gives that back: none without a way to find what is equal.
	next, restoreNext []string
}

// The words of a command that stand for the repository's folder, the image to read, and the file to write.
const (
	wordRepo  = "{repo}"
	wordImage = "{image}"
	wordOut   = "{out}"
)

const password = "archivebench"

// Restic is the restic of PATH. Its restore writes the file, with its path, below a folder.
func Restic(ctx context.Context) (Tool, error) {
	version, err := versionOf(ctx, "restic", "version")
	backup := []string{"restic", "backup", "--compression", "auto", "--quiet", wordImage}
	restore := []string{"restic", "restore", "latest", "--target", wordOut, "--quiet"}
	return Tool{
		Name: "restic", Version: version + ", --compression auto",
		init:   []string{"restic", "init", "--repository-version", "2"},
		backup: backup, restore: restore, next: backup, restoreNext: restore,
		env: []string{"RESTIC_REPOSITORY=" + wordRepo, "RESTIC_PASSWORD=" + password, "RESTIC_CACHE_DIR=" + wordRepo + ".cache"},
	}, err
}

// Borg is the borg of PATH, with chunks of a block's size: for volumes its best.
func Borg(ctx context.Context) (Tool, error) {
	version, err := versionOf(ctx, "borg", "--version")
	backup := func(name string) []string {
		return []string{
			"borg", "create", "--compression", "zstd,1", "--chunker-params", "fixed,524288", wordRepo + name, wordImage,
		}
	}
	restore := func(name string) []string {
		return []string{"sh", "-c", `cd "$1" && exec borg extract "$2"`, "sh", wordOut, wordRepo + name}
	}
	return Tool{
		Name: "borg", Version: version + ", zstd,1, fixed chunks of 512 KiB, repokey-blake2",
		init:   []string{"borg", "init", "--encryption", "repokey-blake2", wordRepo},
		backup: backup("::a"), restore: restore("::a"), next: backup("::b"), restoreNext: restore("::b"),
		env: []string{
			"BORG_PASSPHRASE=" + password, "BORG_BASE_DIR=" + wordRepo + ".cache", "BORG_RELOCATED_REPO_ACCESS_IS_OK=yes",
		},
	}, err
}

// Rclone is the rclone of PATH: it encrypts, and neither compresses nor finds duplicates.
func Rclone(ctx context.Context) (Tool, error) {
	version, err := versionOf(ctx, "rclone", "version")
	if err != nil {
		return Tool{}, err
	}
	hidden, err := versionOf(ctx, "rclone", "obscure", password)
	return Tool{
		Name: "rclone", Version: version + ", crypt",
		init:    []string{"mkdir", wordRepo},
		backup:  []string{"rclone", "copyto", wordImage, "bench:image"},
		restore: []string{"rclone", "copyto", "bench:image", wordOut + "/" + wordImage},
		env: []string{
			"RCLONE_CONFIG_BENCH_TYPE=crypt", "RCLONE_CONFIG_BENCH_REMOTE=" + wordRepo,
			"RCLONE_CONFIG_BENCH_PASSWORD=" + hidden, "RCLONE_CONFIG=" + wordRepo + ".conf",
		},
	}, err
}

// Zstd is the zstd of PATH on one core, which does not encrypt: what compression alone takes and saves.
func Zstd(ctx context.Context) (Tool, error) {
	version, err := versionOf(ctx, "zstd", "--version")
	return Tool{
		Name: "zstd", Version: strings.Trim(version, "* ") + ", -1 -T1, not encrypted",
		init:    []string{"mkdir", wordRepo},
		backup:  []string{"zstd", "-1", "-T1", "-q", wordImage, "-o", wordRepo + "/image.zst"},
		restore: []string{"zstd", "-d", "-q", wordRepo + "/image.zst", "-o", wordOut + "/" + wordImage},
	}, err
}

// Tisnap is this program's own way, by the commands that the given program has for it.
func Tisnap(program, level string) Tool {
	create := []string{program, "archive-image", "create", "--compression", level, wordRepo, wordImage}
	restore := []string{program, "archive-image", "restore", wordRepo, wordOut + "/" + wordImage}
	return Tool{
		Name: "tisnap", Version: "--compression " + level,
		init:   []string{program, "archive-image", "init", wordRepo},
		backup: create, restore: restore,
		next: slices.Concat(create, []string{"--base", "first"}), restoreNext: slices.Concat(restore, []string{"--id", "second"}),
	}
}

func versionOf(ctx context.Context, words ...string) (string, error) {
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w; install it: hack/archive/peers.sh", words[0], err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), nil
}

// use is what a process took.
type use struct {
	seconds float64 // of processors, user and system
	memory  int64   // peak resident bytes
	wall    float64 // seconds
}

// run runs one of the tool's commands, with its words filled in.
func (t *Tool) run(ctx context.Context, words []string, repo, image, out string) (use, error) {
	fill := strings.NewReplacer(wordRepo, repo, wordImage, image, wordOut, out)
	filled := make([]string, len(words))
	for n, word := range words {
		filled[n] = fill.Replace(word)
	}
	cmd := exec.CommandContext(ctx, filled[0], filled[1:]...)
	cmd.Env = os.Environ()
	for _, setting := range t.env {
		cmd.Env = append(cmd.Env, fill.Replace(setting))
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return use{}, err
	}
	ended := make(chan struct{})
	memory := watchMemory(cmd.Process.Pid, ended)
	err := cmd.Wait()
	close(ended)
	u := use{memory: <-memory, wall: time.Since(began).Seconds()}
	if err != nil {
		return use{}, fmt.Errorf("%s: %w: %s", strings.Join(filled, " "), err, output.String())
	}
	u.seconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return u, nil
}

// Trial is one backup and restore of an image by a tool.
type Trial struct {
	Backup, Restore use
	Stored          int64 // bytes of files that the backup added to the repository
}

// Try backs an image up into a new repository below dir, restores it, compares it, and removes both.
func (t *Tool) Try(ctx context.Context, dir, image string) (Trial, error) {
	return t.try(ctx, dir, "", image)
}

// TryNext is Try of what became of an image, into a repository that has the image.
func (t *Tool) TryNext(ctx context.Context, dir, image, next string) (Trial, error) {
	return t.try(ctx, dir, image, next)
}

func (t *Tool) try(ctx context.Context, dir, first, image string) (done Trial, err error) {
	work, err := os.MkdirTemp(dir, t.Name)
	if err != nil {
		return done, err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the folder is a temporary one
	repo, out := filepath.Join(work, "repo"), filepath.Join(work, "out")
	if err := os.MkdirAll(filepath.Join(out, filepath.Dir(image)), 0o700); err != nil {
		return done, err
	}
	if _, err := t.run(ctx, t.init, repo, image, out); err != nil {
		return done, err
	}
	backup, restore, before := t.backup, t.restore, int64(0)
	if first != "" {
		if _, err := t.run(ctx, t.backup, repo, first, out); err != nil {
			return done, err
		}
		if before, err = stored(repo); err != nil {
			return done, err
		}
		backup, restore = t.next, t.restoreNext
	}
	if done.Backup, err = t.run(ctx, backup, repo, image, out); err != nil {
		return done, err
	}
	after, err := stored(repo)
	if err != nil {
		return done, err
	}
	done.Stored = after - before
	if done.Restore, err = t.run(ctx, restore, repo, image, out); err != nil {
		return done, err
	}
	return done, same(image, filepath.Join(out, image))
}

// stored is how many bytes all files below a folder have.
func stored(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
