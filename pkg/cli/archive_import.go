package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/importer"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// archiveImportFlags are the flags of `tisnap archive import`.
type archiveImportFlags struct {
	from      []string
	base      string
	level     codec.Level
	skipFree  create.SkipFree
	limit     string
	stdinSize string
	lockWait  lockWait
	dryRun    bool
}

func (a *app) archiveImportCommand(repo *repoFlags) *cobra.Command {
	var f archiveImportFlags
	cmd := &cobra.Command{
		Use:   "import NAME --from STORE/ROLE=PATH",
		Short: "Archive files, block devices or standard input, without a backup",
		Long: `Archive files, block devices or standard input, without a backup.

Each --from is a volume: PATH is a file, a block device, or - for standard input, whose length need
not be known. STORE/ROLE is what it is called in the archive, as 4/data. Blocks are compared with a
base, by default the newest import of the same NAME, and stored where they differ.

Files and devices must not change meanwhile: a device that is mounted is refused, and what was seen to
change fails with 6. A program that dies looks like the end of standard input: use pipefail in the
shell, or give --stdin-size.

An archive is listed once all of it is stored, and only then does the command exit with 0. The same
command continues one that failed or died. Of a file that was not changed, what is stored is not read
again; a device and standard input are read again, and what is the same is not stored again.

No cluster can be restored from an import, as it has no backup's manifest: its volumes are written
by tisnap archive cat, fill and restore.`,
		Example: `  tisnap archive import prod-disk --from 1/data=/dev/nvme1n1 --repo s3://archive/prod --repo-identity ops.key
  zstdcat image.zst | tisnap archive import prod-disk --from 1/data=- --repo s3://archive/prod \
    --repo-identity ops.key`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options(args[0])
			if err != nil {
				return usage(cmd, err)
			}
			a.limitMemory()
			return a.archiveImport(cmd.Context(), repo, opts, f.dryRun)
		},
	}
	f.add(a, cmd, repo)
	return cmd
}

// add adds the flags to the command.
func (f *archiveImportFlags) add(a *app, cmd *cobra.Command, repo *repoFlags) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.from, "from", nil,
		"volume and its file, its block device, or - for standard input, as 4/data=/dev/xvdb (repeatable)")
	fl.StringVar(&f.base, "base", "",
		"archive to compare with, or none (default: the newest import of the same name)")
	addCompression(cmd, &f.level)
	choose(cmd, fl, &f.skipFree, "skip-free",
		[]string{string(create.SkipOff), string(create.SkipAuto), string(create.SkipAudit)},
		"what to do about blocks that the ext4 of a file or device does not use: auto does not read them, audit "+
			"counts them")
	fl.StringVar(&f.limit, "limit-rate", "", "how much to read per second, such as 100MiB (default: no limit)")
	fl.StringVar(&f.stdinSize, "stdin-size", "",
		"how much standard input has, such as 100GiB or 107374182400: another length is an error")
	f.lockWait.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "open the files and devices and print what would be read; change nothing")
	a.offer(cmd, "base", func(
		cmd *cobra.Command, _ []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		return a.completeArchives(repo)(cmd, nil, begun)
	})
}

// options are those of the import, without its run.
func (f *archiveImportFlags) options(name string) (importer.Options, error) {
	opts := importer.Options{
		Name: name, Base: f.base, Level: f.level, SkipFree: f.skipFree == create.SkipAuto,
		AuditFree: f.skipFree == create.SkipAudit, LockWait: f.lockWait.limit(),
	}
	if len(f.from) == 0 {
		return opts, errors.New("--from is missing: a volume and its source, as 4/data=/dev/xvdb")
	}
	for _, text := range f.from {
		volume, path, _ := strings.Cut(text, "=")
		store, role, _ := strings.Cut(volume, "/")
		id, err := strconv.ParseUint(store, 10, 64)
		if err != nil || role == "" || path == "" {
			return opts, fmt.Errorf("--from %q: want STORE/ROLE=PATH, as 4/data=/dev/xvdb", text)
		}
		if path != importer.Stdin { // the same one of another folder continues
			if path, err = filepath.Abs(path); err != nil {
				return opts, failure.Wrap(err, failure.Usage, "read --from", text)
			}
		}
		opts.Sources = append(opts.Sources,
			importer.Source{Store: cluster.StoreID(id), Role: cluster.Role(role), Path: path})
	}
	if f.limit != "" {
		bytes, err := positiveSize("limit-rate", f.limit)
		if err != nil {
			return opts, err
		}
		opts.Rate = float64(bytes)
	}
	if f.stdinSize != "" {
		bytes, err := positiveSize("stdin-size", f.stdinSize)
		if err != nil {
			return opts, err
		}
		opts.StdinSize = bytes
	}
	if err := f.lockWait.validate(); err != nil {
		return opts, err
	}
	return opts, opts.Validate()
}

func (a *app) archiveImport(ctx context.Context, repo *repoFlags, opts importer.Options, dryRun bool) (err error) {
	for _, from := range opts.Sources {
		if from.Path == importer.Stdin && !dryRun {
			if err := a.checkPiped(); err != nil {
				return err
			}
		}
	}
	if opts.Run, err = runID(""); err != nil {
		return err
	}
	r, done, err := a.openRepository(ctx, repo)
	if err != nil {
		return err
	}
	defer done()
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.end()
	deps := importer.Deps{Repository: r, Stdin: a.streams.In, Sink: s.progress, Log: s.log}
	if dryRun {
		plan, err := importer.Estimate(ctx, deps, opts)
		s.end()
		if err != nil {
			return err
		}
		return a.print(importPlan(opts, r, plan))
	}
	defer a.unfinished("import", "the same command continues the import")()
	result, err := importer.Run(ctx, deps, opts)
	s.end()
	if result.Archive == "" {
		return err // nothing was begun
	}
	return errors.Join(err, a.print(importResult(opts, r, result)))
}

// checkPiped refuses to read a volume from a person.
func (a *app) checkPiped() error {
	file, is := a.streams.In.(*os.File)
	if a.streams.In != nil && (!is || !term.IsTerminal(int(file.Fd()))) {
		return nil
	}
	return failure.New(failure.Usage, "read standard input", "", "it is a terminal, or closed").
		WithHint("pipe the volume into the command, or give a file or block device by --from STORE/ROLE=PATH")
}
