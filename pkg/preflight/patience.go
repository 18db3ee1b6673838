package preflight

import "time"

// Patience is how long a run's checks are retried after transient errors: long enough for PD to change its leader or
// the API server to restart, and no longer for a user who mistyped an address.
const Patience = 2 * time.Minute
