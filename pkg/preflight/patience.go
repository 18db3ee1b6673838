package preflight

import "time"

// Patience is how long a run's checks are tried again after transient errors: a change of PD's leader or a restart of
// the API server is over by then, and a person who named a wrong address does not wait longer.
const Patience = 2 * time.Minute
