// Package tests holds the whole-program tests: the command line against the testbed, over the wire.
package tests
