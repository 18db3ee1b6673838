// Package scale measures a backup's hold of clusters of up to hundreds of stores, with the shipped program and EC2's
// own latencies and buckets, and what a process keeps that fails again and again. Its stores are static
// (tikvtest.Options.Static): they lead regions and serve the hold, and no keys.
package scale
