package claims

// JobName is for tests that make a run's Jobs themselves.
var JobName = jobName
