package workload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
)

const (
	accountPrefix  = "acct/"
	transferPrefix = "xfer/"
	// longRowEvery-th account has rows too long to be kept inside TiKV's records.
	longRowEvery = 8
	longRowBytes = 120
	// wideRowBytes is so much that a client sends the rows of a large transfer to a region in several batches, of 16 KB each.
	wideRowBytes = 1500
)

// Row is what a key holds: an amount, and the start ts of the transaction that wrote it.
type Row struct {
	Balance int64
	Writer  cluster.TS
}

func accountKey(i int) string { return fmt.Sprintf("%s%08d", accountPrefix, i) }

func transferKey(writer cluster.TS) string {
	return fmt.Sprintf("%s%020d", transferPrefix, uint64(writer))
}

func (r Row) encode(key string) []byte {
	b := strconv.AppendInt(nil, r.Balance, 10)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(r.Writer), 10)
	if n, err := strconv.Atoi(strings.TrimPrefix(key, accountPrefix)); err == nil && n%longRowEvery == 0 {
		b = padded(b, longRowBytes)
	}
	return b
}

// padded makes a row at least so long.
func padded(row []byte, to int) []byte {
	if n := to - len(row); n > 0 {
		return append(row, bytes.Repeat([]byte{' '}, n)...)
	}
	return row
}

func decodeRow(b []byte) (Row, error) {
	balance, writer, ok := strings.Cut(strings.TrimRight(string(b), " "), " ")
	if !ok {
		return Row{}, fmt.Errorf("row %q has no writer", b)
	}
	n, err := strconv.ParseInt(balance, 10, 64)
	if err != nil {
		return Row{}, fmt.Errorf("row %q: %w", b, err)
	}
	ts, err := strconv.ParseUint(writer, 10, 64)
	if err != nil {
		return Row{}, fmt.Errorf("row %q: %w", b, err)
	}
	return Row{Balance: n, Writer: cluster.TS(ts)}, nil
}
