// Package command is the testbed's command line: demo, soak and serve.
package command
