// Package transcripts runs what the pages show with a prompt, and compares what the shipped program prints.
package transcripts
