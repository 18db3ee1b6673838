// Package scale measures, with the shipped program, a backup's hold of clusters of up to hundreds of stores with EC2's own
// latencies and buckets, what marks cost, restores of a model of the published case, and what a process keeps that fails
// again and again. The stores of a hold are static (tikvtest.Options.Static): they lead regions and serve the hold, and no
// keys.
package scale
