// Package grpctrace makes a span of each gRPC call, unary or stream, from its first byte to its end.
package grpctrace
