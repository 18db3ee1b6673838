package bench

import (
	"context"
	"crypto/sha256"
	"io"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
)

// Result is what a level makes of a sample.
type Result struct {
	Level  codec.Level
	Raw    int64         // bytes that went in
	Stored int64         // bytes that packs would have of them
	Took   time.Duration // of one goroutine: SHA-256, compression and encryption
}

// Ratio is how many times smaller the level makes the blocks.
func (r Result) Ratio() float64 { return float64(r.Raw) / float64(r.Stored) }

// Rate is how many bytes a second one core archives.
func (r Result) Rate() float64 { return float64(r.Raw) / r.Took.Seconds() }

// turn is how many blocks a level takes before it is the next one's turn: what else the machine does then falls on all
// of them alike.
const turn = 8

// Measure packs the sample's blocks at each level, and stores nothing. The sample must have a block.
func Measure(ctx context.Context, s *Sample, levels []codec.Level) ([]Result, error) {
	trials := make([]trial, len(levels))
	for n, level := range levels {
		var err error
		if trials[n], err = newTrial(level); err != nil {
			return nil, err
		}
	}
	for from := 0; from < len(s.Blocks); from += turn {
		blocks := s.Blocks[from:min(from+turn, len(s.Blocks))]
		for n := range trials {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := trials[n].pack(blocks); err != nil {
				return nil, err
			}
		}
	}
	results := make([]Result, len(trials))
	for n, t := range trials {
		results[n] = t.result
	}
	return results, nil
}

// trial packs blocks at one level, and discards the packs.
type trial struct {
	keys    *format.Keyring
	encoder *codec.Encoder
	writer  *format.PackWriter
	result  Result
}

func newTrial(level codec.Level) (trial, error) {
	keys, err := format.NewKeyring()
	if err != nil {
		return trial{}, err
	}
	encoder, err := codec.NewEncoder(level)
	return trial{keys: keys, encoder: encoder, result: Result{Level: level}}, err
}

func (t *trial) pack(blocks [][]byte) error {
	began := time.Now()
	for _, raw := range blocks {
		if t.writer == nil || t.writer.Size() >= repository.DefaultPackSize {
			w, err := format.NewPackWriter(io.Discard, t.keys, format.Source{}, format.NewPackName())
			if err != nil {
				return err
			}
			t.writer = w
		}
		digest := sha256.Sum256(raw)
		id, packed := t.encoder.Encode(raw)
		before := t.writer.Size()
		if _, err := t.writer.Add(format.Origin{}, digest, len(raw), id, packed); err != nil {
			return err
		}
		t.result.Raw += int64(len(raw))
		t.result.Stored += t.writer.Size() - before
	}
	t.result.Took += time.Since(began)
	return nil
}
