package backup

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// importing is a PD in which an import is registered until a time, and that answers some calls with an error.
type importing struct {
	PD

	until time.Time
	calls int
	fail  func(call int) error
}

func (p *importing) ImportTasks(context.Context) ([]pd.ImportTask, error) {
	p.calls++
	if err := p.fail(p.calls); err != nil {
		return nil, err
	}
	if time.Now().Before(p.until) {
		return []pd.ImportTask{{Kind: "lightning", Name: "orders"}}, nil
	}
	return nil, nil
}

func TestAwaitImports_AnswersThatFail(t *testing.T) {
	t.Parallel()
	leaderless := failure.New(failure.Limited, "list imports", "", "no leader")
	for name, c := range map[string]struct {
		fail func(call int) error
		want string // "" is success
	}{
		"some": {func(call int) error {
			if call%3 == 1 {
				return leaderless
			}
			return nil
		}, ""},
		"denied": {func(call int) error {
			if call == 2 {
				return failure.New(failure.Denied, "list imports", "", "permission denied")
			}
			return nil
		}, "permission denied"},
		"all from the second on": {func(call int) error {
			if call > 1 {
				return leaderless
			}
			return nil
		}, "no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &importing{until: time.Now().Add(20 * time.Minute), fail: c.fail}
				o := Options{Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, OnImport: preflight.WaitOnImport}
				o.defaults()
				src := source{pd: p, opts: o, Source: &preflight.Source{}}
				engine := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}})
				err := engine.Run(t.Context(), []phase.Step{{Phase: "p", Name: "await-imports", Deadline: 2 * time.Hour, Do: src.awaitImports, ReadOnly: true}})
				if c.want == "" {
					require.NoError(t, err)
					require.False(t, time.Now().Before(p.until))
					return
				}
				require.ErrorContains(t, err, c.want)
				require.Greater(t, p.calls, 1)
			})
		})
	}
}
