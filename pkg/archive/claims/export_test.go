package claims

import "github.com/tisnap/tisnap/pkg/kube/workers"

// JobName is for tests that make a run's Jobs themselves.
var JobName = jobName

// Pod is what the pod is that fills a store.
func (f *Filler) Pod(store uint64) workers.Spec { return f.spec(store, nil) }
