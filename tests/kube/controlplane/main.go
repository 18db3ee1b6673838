// Command controlplane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one program, which its
// first argument chooses: most of their code is the same, so that it is linked once. The tests alone run it. It ends when
// its standard input does, so that nothing is left of a test that was killed.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "name one: etcd, kube-apiserver, kube-controller-manager or kube-scheduler")
		os.Exit(2)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	name := os.Args[1]
	os.Args = os.Args[1:]
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	switch newCommand, ok := commands[name]; {
	case ok:
		os.Exit(cli.Run(newCommand()))
	case name == "etcd":
		etcdmain.Main(os.Args)
	default:
		fmt.Fprintf(os.Stderr, "no part of a control plane is named %q\n", name)
		os.Exit(2)
	}
}
