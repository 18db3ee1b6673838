package round

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
)

// description is what the round reads of the output of `tisnap describe`.
type description struct {
	BackupTS string         `json:"backupTS"`
	SealedAt time.Time      `json:"sealedAt"`
	Report   *report.Report `json:"report"`
	Restores []struct {
		Warnings []string       `json:"warnings"`
		Regions  report.Regions `json:"regions"`
	} `json:"restores"`
}

func (s *state) described(ctx context.Context) (*description, error) {
	var out bytes.Buffer
	if err := s.tisnap(ctx, &out, "describe", BackupID, "-o", "json"); err != nil {
		return nil, err
	}
	doc := new(description)
	if err := json.Unmarshal(out.Bytes(), doc); err != nil {
		return nil, fmt.Errorf("read output of describe: %w", err)
	}
	return doc, nil
}

func (s *state) readTS(ctx context.Context) (cluster.TS, error) {
	doc, err := s.described(ctx)
	if err != nil {
		return 0, err
	}
	ts, err := strconv.ParseUint(doc.BackupTS, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read backup ts: %w", err)
	}
	return cluster.TS(ts), nil
}
