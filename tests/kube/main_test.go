package kube_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// folder names the variable with the folder that hack/controlplane/build.sh has made.
const folder = "TISNAP_TEST_CONTROL_PLANE"

// shared is the control plane that all tests share, each in namespaces of its own; nil without one.
var shared *plane.Plane

func TestMain(m *testing.M) {
	awsenv.MustIsolate()
	shipped.Exit(run(m))
}

func run(m *testing.M) int {
	built := os.Getenv(folder)
	if built == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "tisnap-plane-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	shared, err = plane.Start(plane.Config{Program: built + "/controlplane", CRDs: built + "/crds", Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// needsPlane leaves out what only a real control plane can show.
func needsPlane(t *testing.T) {
	t.Helper()
	if shared == nil {
		t.Skip("make test-kube builds and starts a real control plane")
	}
}
