package archivebench

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

const (
	blockBytes = 512 << 10 // of an archive
	tableBytes = 8 << 20   // of an LSM tree's table
	dataBytes  = 32 << 10  // of a table's data block, before it is compressed
)

// A Data is content for a volume.
type Data struct {
	Name string
	Make func(ctx context.Context, image string) error
}

// The names that have more figures than the others.
const (
	dataTiKV   = "tikv"
	dataRandom = "random"
	dataFiles  = "files"
	dataFile   = "one file"
)

// AllData are the kinds of content for volumes of so many bytes, and for the file systems of many files and of one.
func AllData(bytes int64, files int) []Data {
	written := func(write func(io.Writer, int64) error) func(context.Context, string) error {
		return func(_ context.Context, image string) error {
			return file(image, func(w io.Writer) error { return write(w, bytes) })
		}
	}
	return []Data{
		{dataTiKV, written(writeTiKV)},
		{"duplicates", written(writeDuplicates)},
		{"fio", func(ctx context.Context, image string) error { return writeFio(ctx, image, bytes) }},
		{dataRandom, written(func(w io.Writer, n int64) error { return copyRandom(w, newRandom(3), n) })},
		{dataFiles, func(ctx context.Context, image string) error { return makeFiles(ctx, image, files, 1) }},
		{dataFile, func(ctx context.Context, image string) error { return makeFiles(ctx, image, 1, files) }},
	}
}

// writeTiKV writes what a TiKV store's volume is full of: tables of an LSM tree whose blocks of rows are compressed as
// TiKV's defaults do it, none in the upper levels, then a fast codec (LZ4 there, Snappy here), then zstd. A tenth is
// zeros, as of a file system that is not full.
func writeTiKV(w io.Writer, bytes int64) error {
	random := rand.New(newRandom(1))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	out := &counter{w: w}
	for out.n < bytes {
		shrink := func(rows []byte) []byte { return s2.EncodeSnappy(nil, rows) }
		switch kind := random.IntN(100); {
		case kind < 10:
			if err := out.write(make([]byte, min(tableBytes, bytes-out.n))); err != nil {
				return err
			}
			continue
		case kind < 18:
			shrink = func(rows []byte) []byte { return rows }
		case kind < 60:
			shrink = func(rows []byte) []byte { return enc.EncodeAll(rows, nil) }
		}
		for end := min(out.n+tableBytes, bytes); out.n < end; {
			block := shrink(rows(random, dataBytes))
			if err := out.write(block[:min(int64(len(block)), end-out.n)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// rows are of sysbench's table: a key, a number, and two texts of random digits.
func rows(random *rand.Rand, bytes int) []byte {
	out := make([]byte, 0, bytes+256)
	key := random.Uint64N(1 << 40)
	for len(out) < bytes {
		key += random.Uint64N(4) + 1
		out = append(out, "t\x80\x00\x00\x00\x00\x00\x00\x5e_r"...)
		out = binary.BigEndian.AppendUint64(out, key)
		out = binary.BigEndian.AppendUint64(out, ^(449000000000000000 + random.Uint64N(1<<30)))
		out = append(out, 0x80, 0, 3, 0, 0, 0, 2, 3, 4)
		out = binary.LittleEndian.AppendUint32(out, random.Uint32N(1<<20))
		for n := range 15 {
			if n > 0 {
				out = append(out, '-')
			}
			out = fmt.Appendf(out, "%011d", random.Uint64N(100_000_000_000))
		}
	}
	return out[:bytes]
}

// writeFio lets fio write its blocks of 4 KiB, of which 40 % are repeated, and 60 % compressible. No chunk of a program
// in this comparison is so small: what repeats, only the codecs find.
func writeFio(ctx context.Context, image string, bytes int64) error {
	return command(ctx, "fio", "--name=data", "--filename="+image, fmt.Sprint("--size=", bytes), "--rw=write", "--bs=4k",
		"--ioengine=psync", "--fallocate=none", "--dedupe_percentage=40", "--buffer_compress_percentage=60",
		"--refill_buffers", "--randseed=1", "--output="+image+".log")
}

// writeDuplicates writes what fio does by dedupe_percentage=40 and buffer_compress_percentage=60 and blocks of 512 KiB:
// two of five are one that was written before, and of each 4 KiB of the rest 60 % are zeros.
func writeDuplicates(w io.Writer, bytes int64) error {
	source := newRandom(2)
	random := rand.New(source)
	var seeds [][32]byte
	block := make([]byte, blockBytes)
	for written := int64(0); written < bytes; written += blockBytes {
		var seed [32]byte
		if len(seeds) > 0 && random.IntN(5) < 2 {
			seed = seeds[random.IntN(len(seeds))]
		} else {
			_, _ = source.Read(seed[:])
			seeds = append(seeds, seed)
		}
		fill := rand.NewChaCha8(seed)
		clear(block)
		for at := 0; at < len(block); at += 4 << 10 {
			_, _ = fill.Read(block[at : at+4<<10*2/5])
		}
		if _, err := w.Write(block[:min(blockBytes, bytes-written)]); err != nil {
			return err
		}
	}
	return nil
}

// Increment writes a volume that differs from an earlier one in so many of its blocks of 512 KiB, per hundred, and
// returns how many differ.
func Increment(w io.Writer, from io.Reader, percent int) (changed int, err error) {
	source := newRandom(4)
	random := rand.New(source)
	block := make([]byte, blockBytes)
	for {
		n, err := io.ReadFull(from, block)
		if n == 0 {
			return changed, nil
		}
		if random.IntN(100) < percent {
			_, _ = source.Read(block[:n])
			changed++
		}
		if _, err := w.Write(block[:n]); err != nil {
			return changed, err
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return changed, err
		}
	}
}

func newRandom(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

func copyRandom(w io.Writer, random io.Reader, n int64) error {
	_, err := io.CopyN(w, random, n)
	return err
}

// file writes a new file.
func file(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) write(p []byte) error {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return err
}
