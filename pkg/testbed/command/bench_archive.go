package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/testbed/archivebench"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

func benchArchiveCommand() *cobra.Command {
	size, files, rounds, dir, only := "1GiB", 1_000_000, 3, "", ""
	cmd := &cobra.Command{
		Use:   "bench-archive",
		Short: "Measure archives of volumes beside restic, borg, rclone and zstd on the same bytes, as JSON",
		Long: `Measure archives of volumes beside restic, borg, rclone and zstd, which must be installed, on the same bytes: a
volume full of what TiKV writes, one with duplicates, one that fio wrote, one that nothing compresses, one of which 5 %
changed, and, as root, ext4 with a million small files, and with one file of the same bytes. Encryption is on in all
but zstd. Figures are medians of rounds in which the programs take turns, of the processor seconds and the peak
memory of each program's process; each restore is compared byte for byte before its figures count. With SHA-256,
AES-GCM and codec alone tisnap is compared on volumes four times as large. The result goes to stdout as JSON and to
stderr as a table, each figure beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bytes, err := humanize.ParseBytes(size)
			if err != nil || bytes < 1<<20 || bytes > 1<<40 || rounds < 1 || files < 1 {
				return errors.New("want a --size of 1MiB to 1TiB, and at least one of --rounds and --files")
			}
			return benchArchive(cmd.Context(), archivebench.Config{
				Dir: dir, Only: only, Bytes: int64(bytes), Files: files, Rounds: rounds,
			}, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&size, "size", size, "of each volume")
	cmd.Flags().IntVar(&files, "files", files, "in the volume of many files, of a KiB each")
	cmd.Flags().StringVar(&only, "only", only, "the one kind of data to measure, such as tikv, or \"one file\" (default: all)")
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "in which each program backs up and restores each volume once")
	cmd.Flags().StringVar(&dir, "dir", dir, "folder to work in, with room for thirteen volumes (default: the system's temporary one)")
	return cmd
}

func benchArchive(ctx context.Context, c archivebench.Config, stdout, stderr io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	c.Program, c.Level = program, codec.Auto
	c.Progress = func(text string) { fmt.Fprintln(stderr, text) }
	result, err := archivebench.Run(ctx, c)
	if err != nil {
		return err
	}
	return printFigures("ArchiveBenchmark", result, stdout, stderr)
}

// printFigures prints what was measured. A figure that is not what it must be is an error.
func printFigures(kind string, figures []archivebench.Figure, stdout, stderr io.Writer) error {
	doc := benchResult{Kind: kind, Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0), Met: true}
	for _, f := range figures {
		row := figure{Name: f.Name, Value: f.Value, Unit: f.Unit, AtMost: f.AtMost, AtLeast: f.AtLeast, How: f.How}.judged()
		fmt.Fprintln(stderr, row)
		doc.Figures = append(doc.Figures, row)
		doc.Met = doc.Met && row.Met
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(doc); err != nil {
		return err
	}
	if !doc.Met {
		return errors.New("not all figures are what they must be")
	}
	return nil
}

func benchLargeCommand() *cobra.Command {
	c := archivebench.LargeConfig{Tisnap: beside(), Blocks: 200_000_000}
	cmd := &cobra.Command{
		Use:   "bench-large",
		Short: "Measure the memory of tisnap on an archive repository of 200 million blocks, as JSON",
		Long: `Measure the memory that tisnap's commands take on an archive repository of 200 million blocks, which is 100 TB, in
20 volumes: an increment, a list, a verification of all maps and packs, and the restore of a volume. The repository's
maps are real and full, and made when they are read; its packs are a list, except for those of the volume that is
restored. The result goes to stdout as JSON and to stderr as a table, each figure beside what it must reach. The exit
status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Blocks < 1 || c.Blocks > 1<<30 {
				return errors.New("want 1 to 1073741824 --blocks")
			}
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			c.Progress = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
			result, err := archivebench.Large(cmd.Context(), c)
			if err != nil {
				return err
			}
			return printFigures("LargeArchiveBenchmark", result, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().Int64Var(&c.Blocks, "blocks", c.Blocks, "in the repository")
	cmd.Flags().StringVar(&c.Tisnap, "tisnap", c.Tisnap, "the program")
	cmd.Flags().StringVar(&c.Dir, "dir", c.Dir, "folder to work in (default: the system's temporary one)")
	return cmd
}

func benchFarCommand() *cobra.Command {
	c := archivebench.FarConfig{MiB: 320}
	cmd := &cobra.Command{
		Use:   "bench-far",
		Short: "Measure an archive and its restore through a proxy with latency and resets, as JSON",
		Long: `Measure an archive and its restore through a proxy on loopback: with round trips of 45 and 90 ms, a window of 128 KiB
on each connection, and connections that are reset once in 100 MiB, or never. How many packs are uploaded at the same
time, and their size, is what tisnap chooses by the latency that it measures. The result goes to stdout as JSON and to
stderr as a table, each figure beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			c.Progress = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
			result, err := archivebench.Far(cmd.Context(), c)
			if err != nil {
				return err
			}
			return printFigures("FarArchiveBenchmark", result, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&c.MiB, "mib", c.MiB, "of the volume")
	return cmd
}

func benchSharedCommand() *cobra.Command {
	c := archivebench.SharedConfig{Blocks: 900, Rate: 60}
	cmd := &cobra.Command{
		Use:   "bench-shared",
		Short: "Measure an archive by eight workers beside one, as JSON",
		Long: `Measure an archive by eight workers that share it, beside the first eighth of the same one by one worker: its rate,
and which requests there are, on the stand-ins of EBS and S3 with their limits raised. A worker reads at a rate at which two processors
are enough for eight, so what is measured is how the work is divided. The workers run in this process, each with its
own clients, and do what tisnap archive join does. The result goes to stdout as JSON and to stderr as a table, each
figure beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Blocks < 1 || c.Blocks > format.SegmentBlocks || c.Rate <= 0 {
				return fmt.Errorf("want 1 to %d --blocks, and a --rate of more than 0", format.SegmentBlocks)
			}
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			c.Progress = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
			result, err := archivebench.Shared(cmd.Context(), c)
			if err != nil {
				return err
			}
			return printFigures("SharedArchiveBenchmark", result, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&c.Blocks, "blocks", c.Blocks, "of each unit of 32 GiB")
	cmd.Flags().Float64Var(&c.Rate, "rate", c.Rate, "blocks per second of each worker")
	return cmd
}

func benchFilledCommand() *cobra.Command {
	c := archivebench.FilledConfig{MiB: 2048}
	cmd := &cobra.Command{
		Use:   "bench-filled",
		Short: "Measure how fast volumes are filled from an archive, as JSON",
		Long: `Measure how fast volumes are filled from an archive, as the pods of tisnap restore --archive-via volumes do it: to
devices that take a number of bytes per second, and from a storage through a proxy with a round trip of 45 ms and a
window of 512 KiB on each connection. The result goes to stdout as JSON and to stderr as a table, each figure beside
what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := awsenv.Isolate(); err != nil {
				return err
			}
			c.Progress = func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), text) }
			result, err := archivebench.Filled(cmd.Context(), c)
			if err != nil {
				return err
			}
			return printFigures("FilledVolumeBenchmark", result, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&c.MiB, "mib", c.MiB, "of the volume")
	return cmd
}

// archiveImageCommand is what bench-archive measures of tisnap: the archive's engine on one image of a volume, in a
// process of its own as the other programs are.
func archiveImageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "archive-image", Short: "Archive the image of a volume in a folder, for bench-archive", Hidden: true}
	level, base := string(codec.Auto), ""
	create := &cobra.Command{
		Use: "create REPO IMAGE", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := codec.ParseLevel(level)
			if err != nil {
				return err
			}
			id := "first"
			if base != "" {
				id = "second"
			}
			stats, err := archivebench.CreateImage(cmd.Context(), args[0], args[1], id, base, l)
			fmt.Fprintf(cmd.OutOrStdout(), "%+v\n", stats)
			return err
		},
	}
	create.Flags().StringVar(&level, "compression", level, "level")
	create.Flags().StringVar(&base, "base", base, "archive to compare with")
	id := "first"
	restore := &cobra.Command{
		Use: "restore REPO OUT", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return archivebench.RestoreImage(cmd.Context(), args[0], args[1], id)
		},
	}
	restore.Flags().StringVar(&id, "id", id, "archive")
	cmd.AddCommand(create, restore, &cobra.Command{
		Use: "init REPO", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return archivebench.InitImages(cmd.Context(), args[0]) },
	})
	return cmd
}
