package objstoretest

import (
	"bufio"
	"bytes"
	"crypto/md5"  //nolint:gosec // S3 has it
	"crypto/sha1" //nolint:gosec // S3 has it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const checksumHeader = "X-Amz-Checksum-"

// nvme is the polynomial of CRC-64/NVME, reflected; S3 computes it for objects that come without a checksum.
const nvme = 0x9a6c9329ac4bc9b5

// checksums are the algorithms of S3 by the end of their header's name.
func checksums() map[string]func() hash.Hash {
	return map[string]func() hash.Hash{
		"Crc32":     func() hash.Hash { return crc32.NewIEEE() },
		"Crc32c":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
		"Sha1":      sha1.New,
		"Sha256":    sha256.New,
		"Crc64nvme": func() hash.Hash { return crc64.New(crc64.MakeTable(nvme)) },
	}
}

func checksum(algorithm string, body []byte) string {
	h := checksums()[algorithm]()
	_, _ = h.Write(body) // a hash never fails
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// payload reads the body of a write, out of its chunks if it has some, and checks all digests that came
// with it. It returns the checksum header to keep with the object.
func payload(r *http.Request) (body []byte, name, value string, failed *s3Error) {
	headers := http.Header{}
	for key, values := range r.Header {
		headers[key] = values
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil && strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		raw, err = unchunk(raw, headers)
		if want := r.Header.Get("X-Amz-Decoded-Content-Length"); err == nil && want != strconv.Itoa(len(raw)) {
			err = fmt.Errorf("%d bytes, announced were %s", len(raw), want)
		}
	}
	if err != nil {
		return nil, "", "", &s3Error{code: "IncompleteBody", message: err.Error()}
	}
	if failed := verify(raw, headers); failed != nil {
		return nil, "", "", failed
	}
	for algorithm := range checksums() {
		if sent := headers.Get(checksumHeader + algorithm); sent != "" {
			return raw, checksumHeader + algorithm, sent, nil
		}
	}
	return raw, checksumHeader + "Crc64nvme", checksum("Crc64nvme", raw), nil
}

func verify(body []byte, headers http.Header) *s3Error {
	if want := headers.Get("Content-Md5"); want != "" {
		if sum := md5.Sum(body); want != base64.StdEncoding.EncodeToString(sum[:]) { //nolint:gosec // S3 has it
			return &s3Error{code: "BadDigest", message: "The Content-MD5 you specified did not match what we received."}
		}
	}
	if want, err := hex.DecodeString(headers.Get("X-Amz-Content-Sha256")); err == nil && len(want) == sha256.Size {
		if sum := sha256.Sum256(body); !bytes.Equal(want, sum[:]) {
			return &s3Error{code: "XAmzContentSHA256Mismatch", message: "x-amz-content-sha256 does not match the body."}
		}
	}
	for algorithm := range checksums() {
		if want := headers.Get(checksumHeader + algorithm); want != "" && want != checksum(algorithm, body) {
			return &s3Error{code: "BadDigest", message: "The " + strings.ToUpper(algorithm) + " you specified did not match."}
		}
	}
	if announced := headers.Get("X-Amz-Trailer"); announced != "" && headers.Get(announced) == "" {
		return &s3Error{code: "MalformedTrailerError", message: "The trailer " + announced + " is missing."}
	}
	return nil
}

// unchunk decodes the aws-chunked encoding: chunks of "SIZE[;chunk-signature=…]", then trailers, which are
// added to headers.
func unchunk(raw []byte, headers http.Header) ([]byte, error) {
	in := bufio.NewReader(bytes.NewReader(raw))
	text := textproto.NewReader(in)
	var body []byte
	for {
		line, err := text.ReadLine()
		if err != nil {
			return nil, fmt.Errorf("chunk header: %w", err)
		}
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseInt(digits, 16, 32)
		if err != nil || size < 0 {
			return nil, fmt.Errorf("chunk header %q", line)
		}
		if size == 0 {
			break
		}
		chunk := make([]byte, size+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, fmt.Errorf("chunk of %d bytes: %w", size, err)
		}
		body = append(body, chunk[:size]...)
	}
	trailers, err := text.ReadMIMEHeader()
	if err != nil && err != io.EOF { //nolint:errorlint // textproto returns it bare
		return nil, fmt.Errorf("trailers: %w", err)
	}
	for key, values := range trailers {
		headers[key] = values
	}
	return body, nil
}
