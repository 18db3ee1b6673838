package pd_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The library behind prometheus' and opencensus' metrics keeps nothing here; all goroutines must end.
	goleak.VerifyTestMain(m)
}
