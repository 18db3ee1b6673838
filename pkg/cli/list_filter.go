package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

// listFilter selects items of a storage by kubectl's flags.
type listFilter struct {
	everywhere bool
	selector   string
}

func (f *listFilter) add(cmd *cobra.Command, keys string) {
	cmd.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false,
		"include all namespaces, even if --namespace is set")
	cmd.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector, as in kubectl, over: "+keys)
}

// matcher is the filter of one command. Without --namespace all namespaces match.
func (f *listFilter) matcher(
	cmd *cobra.Command, namespace string,
) (func(of cluster.Name, set map[string]string) bool, error) {
	selected, err := kube.ParseSelector(f.selector)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read --selector", f.selector)
	}
	if f.everywhere || !cmd.Flags().Changed("namespace") {
		namespace = ""
	}
	return func(of cluster.Name, set map[string]string) bool {
		set["namespace"], set["cluster"] = of.Namespace, of.Name
		return (namespace == "" || of.Namespace == namespace) && selected(set)
	}, nil
}

// backupKeys are what a selector of backups chooses by.
const backupKeys = "namespace, cluster, state, and the backup's tags"

// backupLabels are a backup's state, and its tags: "key=value", or a key alone.
func backupLabels(e catalog.Entry) map[string]string {
	set := tagLabels(e.Tags)
	set["state"] = string(e.State)
	return set
}

func tagLabels(tags []string) map[string]string {
	set := map[string]string{}
	for _, tag := range tags {
		key, value, _ := strings.Cut(tag, "=")
		set[key] = value
	}
	return set
}
