package journaltest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/journal/journaltest"
)

type options struct {
	Name  string
	Tags  []string
	Spec  struct{ Size int }
	Wait  time.Duration
	Clock func()
	Key   *int
}

func TestCheckRequest_FindsWhatIsNeitherComparedNorListed(t *testing.T) {
	t.Parallel()
	request := func(o *options) map[string]string {
		out := map[string]string{"name": o.Name, "tags": strconv.Itoa(len(o.Tags)), "size": strconv.Itoa(o.Spec.Size)}
		if o.Key != nil {
			out["key"] = "given"
		}
		return out
	}
	free := func(more ...string) map[string]string {
		out := map[string]string{"Wait": "it is a time", "Clock": "it is a clock"}
		for _, path := range more {
			out[path] = "no reason"
		}
		return out
	}
	values := map[string]any{"Key": new(int)}
	require.Empty(t, journaltest.CheckRequest(request, free(), values))
	for name, c := range map[string]struct {
		free   map[string]string
		values map[string]any
		want   []string
	}{
		"not compared":     {map[string]string{"Clock": "a clock"}, values, []string{"Wait is not compared: a run is resumed with another value of it unnoticed"}},
		"compared, listed": {free("Spec"), values, []string{"Spec is compared, and listed as one that need not be"}},
		"within a struct":  {free("Spec.Size"), values, []string{"Spec.Size is compared, and listed as one that need not be"}},
		"without a reason": {map[string]string{"Wait": "", "Clock": "a clock"}, values, []string{"Wait is listed without a reason"}},
		"renamed":          {free("Old"), values, []string{"Old is listed, and there is no such option"}},
		"no value":         {free(), nil, []string{"Key: give a value of *int"}},
		"a function":       {map[string]string{"Wait": "a time"}, values, []string{"Clock: give a value of func()"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, journaltest.CheckRequest(request, c.free, c.values))
		})
	}
}
