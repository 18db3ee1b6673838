package tests

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// traces is a collector of OTLP over HTTP.
type traces struct {
	mu    sync.Mutex
	spans map[string]*tracepb.Span // by id
}

// newTraces starts a collector and names it in the environment of a place.
func newTraces(t *testing.T, p *place) *traces {
	t.Helper()
	c := &traces{spans: map[string]*tracepb.Span{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	p.env = append(p.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL)
	return c
}

func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var req collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &req) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceSpans() {
		for _, s := range r.GetScopeSpans() {
			for _, span := range s.GetSpans() {
				c.spans[string(span.GetSpanId())] = span
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// forget forgets the runs so far.
func (c *traces) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.spans)
}

// path is the names from the root to the span.
func (c *traces) path(span *tracepb.Span) string {
	names := []string{span.GetName()}
	for parent := c.spans[string(span.GetParentSpanId())]; parent != nil; parent = c.spans[string(parent.GetParentSpanId())] {
		names = append([]string{parent.GetName()}, names...)
	}
	return strings.Join(names, " > ")
}

// requireCalls requires that the spans of the command are one trace, and that each pattern fits the path of one below it.
func (c *traces) requireCalls(t *testing.T, root string, patterns []string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var paths []string
	ids := map[string]bool{}
	for _, span := range c.spans {
		if rest, below := strings.CutPrefix(c.path(span), root+" > "); below {
			paths = append(paths, rest)
			ids[string(span.GetTraceId())] = true
		}
	}
	assert.Len(t, ids, 1, "a run is one trace")
	for _, pattern := range patterns {
		assert.True(t, slices.ContainsFunc(paths, regexp.MustCompile("^"+pattern).MatchString), "no span is at %q", pattern)
	}
	if t.Failed() {
		slices.Sort(paths)
		t.Log(strings.Join(slices.Compact(paths), "\n"))
	}
}

// With a collector in the environment a run is one trace: the phases, below them the steps, below them the calls.
func TestTrace_RunIsATreeOfPhasesStepsAndCalls(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6})
	c := newTraces(t, p)
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)

	c.mu.Lock()
	defer c.mu.Unlock()
	paths, ids := map[string]bool{}, map[string]bool{}
	for _, span := range c.spans {
		paths[c.path(span)] = true
		ids[string(span.GetTraceId())] = true
		assert.GreaterOrEqual(t, span.GetEndTimeUnixNano(), span.GetStartTimeUnixNano())
	}
	require.Len(t, ids, 1, "a run is one trace")
	for _, want := range []string{
		"tisnap backup > create task > preflight",
		"tisnap backup > pause scheduling > hold",
		"tisnap backup > volume snapshots > cut > ec2:CreateSnapshots",
		"tisnap backup > volume snapshots > wait > ec2:DescribeSnapshots",
	} {
		assert.True(t, paths[want], "%s is not in the trace", want)
	}
	for _, want := range []string{
		`preflight > PD GET`, `preflight > pdpb\.PD/ScanRegions`, `connect > backup\.Backup/PrepareSnapshotBackup`, `hold > PD POST`,
		`hold > import_sstpb\.ImportSST/SuspendImportRPC`, `hold-gc > pdpb\.PD/UpdateServiceGCSafePoint`, `cut > ec2:CreateSnapshots`,
	} {
		calls := regexp.MustCompile(`^tisnap backup > [^>]+ > ` + want)
		assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(paths)), calls.MatchString), "no step of a phase has the call %q", want)
	}
	if t.Failed() {
		for path := range paths {
			t.Log(path)
		}
	}
}

// A collector that does not answer changes nothing of how the run ends.
func TestTrace_CollectorIsGone_RunEndsAllTheSame(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	p := newPlace(t, testbed.Config{Nodes: 6})
	p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL + "/secret-token"}
	e := p.run(t, "backup", "tidb/none", "--storage", whole)
	require.Equal(t, cli.ExitCode(4), e.code, e.stderr)
	assert.NotContains(t, e.stderr, "secret-token")
}
