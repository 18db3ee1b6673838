package create

import "time"

// RenewEvery has the lease renewed so often.
func (o *Options) RenewEvery(d time.Duration) { o.renewEvery = d }

// WithLooks has a run look so often at what others have done.
func WithLooks(o Options, every time.Duration) Options {
	o.lookEvery = every
	return o
}

// QuickJoin are the options of a process that looks often, and takes claims over after so long.
func QuickJoin(name string, index, workers int, reclaim time.Duration) JoinOptions {
	return JoinOptions{
		Name: name, Index: index, Workers: workers, lookEvery: time.Millisecond, reclaimAfter: reclaim,
	}
}

// LookingEach has a process look so often at what others have done.
func LookingEach(o JoinOptions, every time.Duration) JoinOptions {
	o.lookEvery = every
	return o
}
