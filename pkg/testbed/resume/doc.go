// Package resume restores a backup under faults and kills in every sub-phase of the data phase, resumes it with
// `tisnap resolve` until the cluster serves, and proves that its rows are those at the backup ts. The faults of a
// run follow its seed.
package resume
