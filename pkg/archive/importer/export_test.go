package importer

import "time"

// RenewEvery has the lease renewed so often.
func (o *Options) RenewEvery(d time.Duration) { o.renewEvery = d }
