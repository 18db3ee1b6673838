// Package workers runs tisnap in the pods of Kubernetes Jobs. A Job is known by the run that made it and by its UID:
// the run finds its own again, and nothing of another run is changed or deleted. The pods have a restricted security
// context. One that is evicted or whose node is drained is made again and not counted; an exit code after which a retry
// is of no use ends the Job.
package workers
