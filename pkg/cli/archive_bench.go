package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/archive/bench"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// archiveBenchFlags describe what is measured.
type archiveBenchFlags struct {
	file, sample, data, prices string
	cores                      int
}

func (a *app) archiveBenchCommand() *cobra.Command {
	var f archiveBenchFlags
	cmd := &cobra.Command{
		Use:   "bench --file FILE",
		Short: "Measure what each level of compression costs and saves on your own data",
		Long: `Measure what each level of compression costs and saves on your own data: a sample of a volume's
image or block device, read at even distances. Each level hashes, compresses and encrypts the
same blocks on one core, in turns; nothing is stored. TIME and USD/MONTH are for all of the
volume's data, or --data: the time is that of the processors alone, on --cores of them.`,
		Example: `  tisnap archive bench --file /dev/nvme1n1
  tisnap archive bench --file tikv-0.img --data 20TiB --cores 16`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.file == "" {
				return usage(cmd, errors.New("set --file, the image or block device to read"))
			}
			doc, err := a.archiveBench(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.print(doc)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.file, "file", "", "image or block device to read the sample from")
	fl.StringVar(&f.sample, "sample", "256MiB", "how much to read, all of it into memory")
	fl.StringVar(&f.data, "data", "", "data to archive, such as 20TiB (default: the volume's, by the sample)")
	fl.IntVar(&f.cores, "cores", runtime.NumCPU(), "processor cores that will archive")
	fl.StringVar(&f.prices, "prices", "", "TOML file with prices (default: built-in us-east-1 prices)")
	return cmd
}

func (a *app) archiveBench(ctx context.Context, f archiveBenchFlags) (*archiveBenchDoc, error) {
	prices, err := estimate.ReadPrices(f.prices)
	if err != nil {
		return nil, err
	}
	sample, err := positiveSize("sample", f.sample)
	if err != nil {
		return nil, err
	}
	data := int64(0)
	if f.data != "" {
		if data, err = positiveSize("data", f.data); err != nil {
			return nil, err
		}
	}
	if f.cores < 1 {
		return nil, failure.New(failure.Usage, "read --cores", fmt.Sprint(f.cores), "want at least 1")
	}
	taken, err := sampleOf(ctx, f.file, sample)
	if err != nil {
		return nil, err
	}
	if len(taken.Blocks) == 0 {
		return nil, failure.New(failure.Usage, "measure", f.file, "the sample has only zeros").
			WithHint("read a larger --sample, or another volume")
	}
	results, err := bench.Measure(ctx, taken, codec.Levels())
	if err != nil {
		return nil, failure.Annotate(err, "measure", f.file)
	}
	doc := &archiveBenchDoc{
		header: newHeader("ArchiveBench"), File: f.file, Cores: f.cores, DataBytes: cmp.Or(data, taken.Data()),
	}
	for _, raw := range taken.Blocks {
		doc.SampleBytes += int64(len(raw))
	}
	for _, r := range results {
		doc.add(r, prices)
	}
	return doc, nil
}

// sampleOf reads a sample of an image or a block device.
func sampleOf(ctx context.Context, path string, bytes int64) (*bench.Sample, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "open image", path)
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd) // a block device's size too
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read image", path)
	}
	s, err := bench.Take(ctx, &volume.Image{Bytes: size, From: file}, bytes)
	return s, failure.Annotate(err, "read image", path)
}

// positiveSize reads a flag's size in bytes.
func positiveSize(flag, text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > 1<<50 {
		return 0, failure.New(failure.Usage, "read --"+flag, text, "want a size such as 1TiB or 500GiB")
	}
	return saturate.To[int64](n), nil
}

// archiveBenchDoc is the output of `tisnap archive bench`.
type archiveBenchDoc struct {
	header
	File        string             `json:"file"`
	SampleBytes int64              `json:"sampleBytes"` // without zeros
	DataBytes   int64              `json:"dataBytes"`   // that Stored, Seconds and MonthUSD are for
	Cores       int                `json:"cores"`
	Items       []archiveBenchItem `json:"items"`
}

// archiveBenchItem is what a level of compression makes of the data.
type archiveBenchItem struct {
	Level       codec.Level `json:"level"`
	Ratio       float64     `json:"ratio"`
	BytesPerSec float64     `json:"bytesPerSecondAndCore"`
	Stored      int64       `json:"storedBytes"`
	Seconds     float64     `json:"seconds"`
	MonthUSD    *float64    `json:"monthUSD,omitempty"`
}

func (d *archiveBenchDoc) add(r bench.Result, prices *estimate.Prices) {
	item := archiveBenchItem{
		Level: r.Level, Ratio: r.Ratio(), BytesPerSec: r.Rate(),
		Stored:  int64(float64(d.DataBytes) / r.Ratio()),
		Seconds: float64(d.DataBytes) / r.Rate() / float64(d.Cores),
	}
	if month := prices.Objects.GBMonth; month != nil {
		cost := *month * float64(item.Stored) / (1 << 30)
		item.MonthUSD = &cost
	}
	d.Items = append(d.Items, item)
}

func (d *archiveBenchDoc) table(w io.Writer, v view) error {
	if _, err := fmt.Fprintf(w, "%s\nsample: %s without zeros; figures are for %s of data\n\n",
		d.File, iBytes(d.SampleBytes), iBytes(d.DataBytes)); err != nil {
		return err
	}
	t := newTable("LEVEL", "RATIO", "MIB/S/CORE", "STORED", fmt.Sprintf("TIME ON %d CORES", d.Cores), "USD/MONTH")
	for _, i := range d.Items {
		t.row(i.Level, fmt.Sprintf("%.2f", i.Ratio), fmt.Sprintf("%.0f", i.BytesPerSec/(1<<20)),
			iBytes(i.Stored), time.Duration(i.Seconds*float64(time.Second)).Round(time.Second),
			usd(i.MonthUSD))
	}
	return t.write(w, v)
}
