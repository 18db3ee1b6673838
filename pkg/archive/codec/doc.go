// Package codec compresses the blocks of an archive one by one. A block that does not shrink stays as it is; decoding
// never makes more bytes than the caller asks for, whatever the input.
package codec
