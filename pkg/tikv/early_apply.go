package tikv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

const (
	earlyApplySection = "raftstore"
	earlyApplyKey     = "max-apply-unpersisted-log-limit"
	earlyApplyGauge   = "tikv_raft_enable_unpersisted_apply_regions"
)

var _ EarlyApplier = (*Client)(nil)

// EarlyApply reads the whole configuration: without full=true TiKV omits its hidden fields.
func (c *Client) EarlyApply(ctx context.Context, statusAddress string) (EarlyApply, error) {
	const op = "read early apply"
	answer, err := c.status(ctx, op, statusAddress, http.MethodGet, "/config?full=true", nil)
	if err != nil {
		return EarlyApply{}, err
	}
	var config map[string]json.RawMessage
	var section map[string]json.RawMessage
	if err := json.Unmarshal(answer, &config); err != nil {
		return EarlyApply{}, failure.Wrap(err, failure.Unknown, op, target(statusAddress))
	}
	// An answer without the section is not a store's: it must not be taken for a missing setting.
	if err := json.Unmarshal(config[earlyApplySection], &section); err != nil {
		return EarlyApply{}, failure.New(failure.Unknown, op, target(statusAddress), "the configuration has no %s: %w",
			earlyApplySection, err)
	}
	value, known := section[earlyApplyKey]
	if !known {
		return EarlyApply{}, nil
	}
	early := EarlyApply{Known: true}
	if err := json.Unmarshal(value, &early.Limit); err != nil {
		return EarlyApply{}, failure.New(failure.Unknown, op, target(statusAddress), "%s: %w", earlyApplyKey, err)
	}
	return early, nil
}

// SetEarlyApply posts the change with persist=false: otherwise TiKV would write it to its config file.
func (c *Client) SetEarlyApply(ctx context.Context, statusAddress string, limit uint64) error {
	const op = "set early apply"
	change, err := json.Marshal(map[string]uint64{earlyApplySection + "." + earlyApplyKey: limit})
	if err != nil {
		return failure.Wrap(err, failure.Usage, op, target(statusAddress))
	}
	if err := fenced.Check(ctx); err != nil {
		return failure.Annotate(err, op, target(statusAddress))
	}
	_, err = c.status(ctx, op, statusAddress, http.MethodPost, "/config?persist=false", change)
	return err
}

// EarlyAppliers reads one line of the metrics page, which has megabytes.
func (c *Client) EarlyAppliers(ctx context.Context, statusAddress string) (int, error) {
	const op = "read early appliers"
	answer, err := c.status(ctx, op, statusAddress, http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, maxStatusAnswer)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != earlyApplyGauge {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0, failure.New(failure.Unknown, op, target(statusAddress), "%s: %w", earlyApplyGauge, err)
		}
		return int(n), nil
	}
	if err := lines.Err(); err != nil {
		return 0, failure.Wrap(err, failure.Unknown, op, target(statusAddress))
	}
	return 0, nil
}

// status makes one call to a status port. Anything but 200 is an error.
func (c *Client) status(ctx context.Context, op, address, method, path string, body []byte) ([]byte, error) {
	if address == "" {
		return nil, failure.New(failure.Unready, op, "store", "it announces no status address").
			WithHint("%s", hintStatus)
	}
	if c.ended() {
		return nil, failure.New(failure.Usage, op, target(address), "the client is closed")
	}
	limited, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	scheme := "http"
	if c.tls() != nil {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(limited, method, scheme+"://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, target(address))
	}
	// Setting a value twice is harmless: net/http may resend it on a fresh connection if the idle one is dead.
	req.Header["Idempotency-Key"] = nil
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, translateStatus(ctx, err, op, address)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxStatusAnswer))
	if err != nil {
		return nil, translateStatus(ctx, err, op, address)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, translateStatus(ctx, &statusError{code: resp.StatusCode, text: string(answer)}, op, address)
	}
	return answer, nil
}
