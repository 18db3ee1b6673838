package kubetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// requestLimit bounds a request to a real API server.
const requestLimit = 30 * time.Second

// Real is the objects of a real control plane, beside whose controllers an Operator can be run.
type Real struct {
	*Objects

	remote *remote
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Connect reads all that an Operator needs and watches it until ctx ends or Close. The kubeconfig's user has to be
// allowed everything. A write that is refused later goes to logf, and its caller may try it again.
func Connect(ctx context.Context, kubeconfig string, logf func(format string, args ...any)) (*Real, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s := &remote{api: api, logf: logf, objects: map[string]map[objectKey]object{}, removed: map[string]bool{}, changed: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	r := &Real{Objects: &Objects{state: s, controlled: true}, remote: s, stop: stop}
	kinds, err := watched(ctx, api)
	if err != nil {
		stop()
		return nil, err
	}
	read := make(chan struct{}, len(kinds))
	for _, kind := range kinds {
		view := &view{state: s, resource: kind, read: sync.OnceFunc(func() { read <- struct{}{} })}
		reflector := cache.NewReflectorWithOptions(listWatch(api.Resource(kind.gvr())), &unstructured.Unstructured{}, view,
			cache.ReflectorOptions{Name: kind.name, Logger: new(logr.Discard())})
		r.done.Go(func() { reflector.RunWithContext(ctx) })
	}
	limit := time.After(requestLimit)
	for range kinds {
		select {
		case <-read:
			continue
		case <-ctx.Done():
		case <-limit:
		}
		r.Close()
		return nil, fmt.Errorf("read the objects of %s: they do not come", config.Host)
	}
	return r, nil
}

// Close ends the watches and waits for their end.
func (r *Real) Close() {
	r.stop()
	r.done.Wait()
}

// Delete deletes an object as a person would; one that is not there is no error.
func (r *Real) Delete(ctx context.Context, res, namespace, name string) error {
	return ignoreNotFound(r.remote.of(resourceNamed(res), namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}

// watched are the resources that an Operator goes by, or the kubelet below it: those of Operator 2.x only if it is installed.
func watched(ctx context.Context, api dynamic.Interface) ([]resource, error) {
	var all []resource
	for _, name := range []string{nodes, volumes, pods, claims, events, services, "secrets", statefulSets, volumeAttachments, tidbClusters, namespaces, storageClasses} {
		all = append(all, resourceNamed(name))
	}
	for _, r := range coreResources() {
		switch _, err := api.Resource(r.gvr()).List(ctx, metav1.ListOptions{Limit: 1}); {
		case err == nil:
			all = append(all, r)
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return all, nil
}

func (r resource) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.name}
}

func listWatch(api dynamic.NamespaceableResourceInterface) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, opts) },
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, opts)
		},
	}
}
