package kube

import (
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/jsonpath"
)

// ParseSelector reads a label selector as kubectl's --selector does.
func ParseSelector(text string) (matches func(labels map[string]string) bool, err error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, err
	}
	return func(set map[string]string) bool { return selector.Matches(labels.Set(set)) }, nil
}

// ParseJSONPath reads a template as kubectl's -o jsonpath does, with its short forms "x.y" and ".x.y" for "{.x.y}".
// Missing fields print nothing.
func ParseJSONPath(text string) (fill func(w io.Writer, value any) error, err error) {
	if text != "" && !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	p := jsonpath.New("output").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		return nil, err
	}
	return p.Execute, nil
}

// Contexts lists the contexts of a kubeconfig in order; an empty path means the files that kubectl would read.
func Contexts(kubeconfig string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(config.Contexts)), nil
}
