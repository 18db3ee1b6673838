package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/failure"
	kubetyped "github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// A Job that cannot be made is not waited for until the run ends, and why it is waited for is shown once.
func TestArchiveWorkers_JobCannotBeMade_Fails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	core, err := kubetyped.New(&rest.Config{Host: server.URL, QPS: -1}, server.Client())
	require.NoError(t, err)
	w := &archiveWorkers{
		jobs: workers.New(core), join: func(string) []string { return []string{"archive", "join"} },
		spec: workers.Spec{Run: "run", Namespace: "tidb", Name: "job", Image: "tisnap:v1", Pods: 1},
	}
	w.jobs.Interval, w.jobs.StartWithin = time.Millisecond, 3*time.Second // enough for one answer at least
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var notes []string
	err = w.Work(ctx, "one", func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
	require.True(t, failure.Is(err, failure.Limited), "%v", err)
	require.NoError(t, ctx.Err())
	require.Len(t, notes, 1, "%v", notes)
	require.Contains(t, notes[0], "make job of tidb/job: ")
}
