package plane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const requestLimit = 10 * time.Second

// Config is the client configuration of a user.
func (p *Plane) Config(user string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig(user))
	if err == nil {
		config.QPS = -1
	}
	return config, err
}

// ready asks the API server whether it serves. Its certificate is there as soon as it listens.
func (p *Plane) ready(ctx context.Context) error {
	token, err := p.token("admin")
	if err != nil {
		return err
	}
	config := &rest.Config{
		Host: p.server, BearerToken: token, Timeout: requestLimit,
		TLSClientConfig: rest.TLSClientConfig{CAFile: p.Authority()},
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server is not ready: %s", answer.Status)
	}
	return nil
}

// install makes the CustomResourceDefinitions, and waits until they are served and a pod may be made.
func (p *Plane) install(ctx context.Context) error {
	config, err := p.Config("admin")
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(p.cfg.CRDs, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no definition in " + p.cfg.CRDs)
	}
	if err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	var served []schema.GroupVersionResource
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if _, err := definitions.Create(ctx, &o, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", file, err)
		}
		served = append(served, versions(&o)...)
	}
	return p.await(ctx, func(ctx context.Context) error {
		for _, resource := range served {
			if _, err := client.Resource(resource).List(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
		}
		accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"})
		_, err := accounts.Namespace("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// versions are what a CustomResourceDefinition makes the API server serve.
func versions(definition *unstructured.Unstructured) (all []schema.GroupVersionResource) {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	list, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, item := range list {
		if version, ok := item.(map[string]any); ok && version["served"] == true {
			name, _, _ := unstructured.NestedString(version, "name")
			all = append(all, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
		}
	}
	return all
}
