package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/notify"
	"github.com/tisnap/tisnap/pkg/outbound"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// sendQuickly is Send with shorter waits.
func sendQuickly(ctx context.Context, rawURL string, s notify.Summary, total time.Duration) error {
	return notify.Send(ctx, rawURL, s, outbound.Limits{Total: total, Answer: total / 2, Wait: time.Millisecond})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver answers each request with the next of its answers, the last of them for ever, and keeps the bodies.
type receiver struct {
	url string

	mu      sync.Mutex
	answers []func(http.ResponseWriter)
	bodies  []string
	types   []string
}

func newReceiver(t *testing.T, answers ...func(http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answers: answers}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL + "/hook/secret-token"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.bodies, r.types = append(r.bodies, string(body)), append(r.types, req.Method+" "+req.Header.Get("Content-Type"))
	answer := r.answers[min(len(r.bodies), len(r.answers))-1]
	r.mu.Unlock()
	answer(w)
}

// received are the bodies so far, and the method and content type of each.
func (r *receiver) received() (bodies, types []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies), slices.Clone(r.types)
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func example() notify.Summary {
	start := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	var s notify.Summary
	s.FromReport(&report.Report{
		Header: report.Header{
			Operation: report.Backup, Run: "r1", Backup: "nightly-1", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"},
			Started: start, Finished: start.Add(time.Hour), TiKVs: 3, Volumes: 6, DataBytes: 1 << 40,
			Hold:     &report.Hold{Seconds: 4.5, CutSeconds: 1.25, Attempts: 2},
			Warnings: []string{"TiFlash is not in the backup\x1b[31m\nforged line"},
		},
		TotalSeconds: 3600,
		Phases:       []report.Phase{{Name: "create task", Seconds: 3}, {Name: "volume snapshots", Seconds: 3590}},
	})
	return s
}

// CloudEvents 1.0, "Context Attributes": specversion, id, source and type are required and not empty, names are in lower
// case, and time is of RFC 3339.
func TestSend_IsAValidCloudEvent(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, status(http.StatusAccepted))
	s := example()
	s.Failed(failure.New(failure.Held, "release", "cluster tidb/prod", "PD does not answer").WithHint("run: tisnap release tidb/prod"), 9)
	require.NoError(t, notify.Send(t.Context(), r.url, s, outbound.Limits{}))

	bodies, types := r.received()
	require.Equal(t, []string{"POST " + notify.ContentType}, types)
	var e map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(bodies[0]), &e))
	require.ElementsMatch(t, []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"}, slices.Collect(maps.Keys(e)))
	for attribute, want := range map[string]string{
		"specversion": "1.0", "type": "io.tisnap.backup.failed", "source": "/clusters/tidb/prod", "subject": "nightly-1", "datacontenttype": "application/json",
	} {
		assert.Equal(t, `"`+want+`"`, string(e[attribute]), attribute)
	}
	assert.Greater(t, len(e["id"]), len(`""`))
	require.NoError(t, new(time.Time).UnmarshalJSON(e["time"]), "RFC 3339")
	assert.JSONEq(t, `{
		"operation":"backup","outcome":"failed","exitCode":9,"kind":"held","error":"release of cluster tidb/prod: PD does not answer",
		"hint":"run: tisnap release tidb/prod","cluster":"tidb/prod","backup":"nightly-1","run":"r1",
		"started":"2026-11-22T01:00:00Z","finished":"2026-11-22T02:00:00Z","totalSeconds":3600,"holdSeconds":4.5,"cutSeconds":1.25,
		"holdAttempts":2,"tikvs":3,"volumes":6,"dataBytes":1099511627776,
		"phases":[{"name":"create task","seconds":3},{"name":"volume snapshots","seconds":3590}],
		"warnings":["TiFlash is not in the backup[31m forged line"]}`, string(e["data"]))
}

// The event that docs/monitoring.md shows has fields that events have, in their form.
func TestDocs_Event(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/monitoring.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "```json\n")
	shown, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	d := json.NewDecoder(strings.NewReader(shown))
	d.DisallowUnknownFields()
	var e notify.Event
	require.NoError(t, d.Decode(&e))
	body, err := json.Marshal(e)
	require.NoError(t, err)
	require.JSONEq(t, shown, string(body))
	s := example()
	s.Failed(nil, 0)
	require.Equal(t, "io.tisnap."+s.Operation+"."+string(s.Outcome), e.Type)
	require.Equal(t, "/clusters/"+s.Cluster, e.Source)
}

func TestSend_RetriesWhatMayPass_WithTheSameEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  []func(http.ResponseWriter)
		requests int
		err      string
	}{
		"at once":                    {[]func(http.ResponseWriter){status(204)}, 1, ""},
		"busy, then well":            {[]func(http.ResponseWriter){status(503), status(429), status(200)}, 3, ""},
		"a lost answer":              {[]func(http.ResponseWriter){hangUp, status(200)}, 2, ""},
		"always down":                {[]func(http.ResponseWriter){status(500)}, 4, "it answered 500"},
		"always lost":                {[]func(http.ResponseWriter){hangUp}, 4, "EOF"},
		"refused":                    {[]func(http.ResponseWriter){status(403)}, 1, "it answered 403"},
		"redirects are not followed": {[]func(http.ResponseWriter){redirect, status(200)}, 1, "it answered 307"},
		"asks for too long a wait":   {[]func(http.ResponseWriter){later, status(200)}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, c.answers...)
			s := example()
			s.Failed(nil, 0)
			err := sendQuickly(t.Context(), r.url, s, 20*time.Second)
			bodies, _ := r.received()
			require.Len(t, bodies, c.requests)
			for _, body := range bodies {
				assert.Equal(t, bodies[0], body)
			}
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
			assert.NotContains(t, err.Error(), "secret-token")
		})
	}
}

func redirect(w http.ResponseWriter) {
	w.Header().Set("Location", "/elsewhere")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func later(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "3600")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// A receiver that takes the event and never answers does not keep the command from ending.
func TestSend_ReceiverHangs_EndsInTime(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter) { <-release })
	t.Cleanup(func() { close(release) })
	err := sendQuickly(t.Context(), r.url, example(), 400*time.Millisecond)
	require.Error(t, err)
	assert.Equal(t, failure.Limited, failure.KindOf(err))
}

func TestSend_ConnectionRefused_NamesTheHostAlone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	err := sendQuickly(t.Context(), strings.Replace(server.URL, "http://", "http://user:password@", 1)+"/secret-token?key=secret", example(), 20*time.Second)
	require.ErrorContains(t, err, "send notification of receiver 127.0.0.1:")
	assert.NotContains(t, err.Error(), "secret")
	assert.NotContains(t, err.Error(), "password")
}

// Messages of other systems end up in the event: cut, on one line, without control characters.
func TestSummary_HostileTexts_AreCutAndCleaned(t *testing.T) {
	t.Parallel()
	s := example()
	s.Failed(errors.New("<script>alert(1)</script>\x1b[2J\nhttps://user:hIdDeN@h/?X-Amz-Signature=hIdDeN "+strings.Repeat("x", 10_000)), 1)
	assert.LessOrEqual(t, len(s.Error), failure.MaxRemote+40)
	assert.NotContains(t, s.Error, "\x1b")
	assert.NotContains(t, s.Error, "\n")
	assert.NotContains(t, s.Error, "hIdDeN")
	assert.Equal(t, "unknown", s.Kind)
	assert.Equal(t, phase.Failed, s.Outcome)
}
