package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
)

// displayName is the program's name in help texts: kubectl runs a plugin as kubectl-tisnap.
func (a *app) displayName() map[string]string {
	if strings.HasPrefix(a.streams.Program, "kubectl-tisnap") {
		return map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tisnap"}
	}
	return nil
}

// kubectlComplete is the program that kubectl runs to complete the plugin's arguments: a link to this one.
const kubectlComplete = "kubectl_complete-tisnap"

// completionTime bounds how long the shell waits.
const completionTime = 5 * time.Second

// completeFromLive offers namespaces and contexts in the shell.
func (a *app) completeFromLive(root *cobra.Command) {
	for flag, offer := range map[string]cobra.CompletionFunc{
		"namespace": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			seen := map[string]bool{}
			names, directive := a.liveClusters(cmd, true)
			for _, name := range names {
				seen[name.Namespace] = true
			}
			return slices.Sorted(maps.Keys(seen)), directive
		},
		"context": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			contexts, err := kube.Contexts(a.global.kubeconfig)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return contexts, cobra.ShellCompDirectiveNoFileComp
		},
	} {
		a.offer(root, flag, offer)
	}
}

// completeClusters offers the TidbClusters of the namespace, or with their namespaces those of all.
func (a *app) completeClusters(
	cmd *cobra.Command, args []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeMoreClusters(cmd, args, toComplete)
}

// completeMoreClusters is completeClusters for a command that takes several.
func (a *app) completeMoreClusters(
	cmd *cobra.Command, _ []string, toComplete string,
) ([]string, cobra.ShellCompDirective) {
	everywhere := strings.Contains(toComplete, "/")
	names, directive := a.liveClusters(cmd, everywhere)
	out := make([]string, len(names))
	for i, name := range names {
		if out[i] = name.Name; everywhere {
			out[i] = name.String()
		}
	}
	return out, directive
}

func (a *app) liveClusters(cmd *cobra.Command, everywhere bool) ([]cluster.Name, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer c.close()
	k, err := c.kube()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	namespace := k.Namespace()
	if everywhere {
		namespace = ""
	}
	names, err := k.Clusters(ctx, namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
