package ebs_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	goleak.VerifyTestMain(m, goleak.Cleanup(shipped.Exit))
}
