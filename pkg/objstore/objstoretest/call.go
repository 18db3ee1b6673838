package objstoretest

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"strings"
)

const corruptBody = "CorruptBody"

// call is a request, taken apart.
type call struct {
	r           *http.Request
	op          string // S3's name of it
	bucket, key string
	raw         []byte // the body as it was sent
	corrupt     bool   // answer with a flipped bit
}

func newCall(r *http.Request) *call {
	c := &call{r: r}
	c.bucket, c.key, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case c.bucket == "":
		c.op = map[string]string{http.MethodGet: "ListBuckets"}[r.Method]
	case c.key == "":
		c.op = bucketOp(r)
	default:
		c.op = objectOp(r)
	}
	if c.op == "" {
		c.op = "Unsupported"
	}
	return c
}

// bucketOp names a call on a bucket; "" is one that this server does not have.
func bucketOp(r *http.Request) string {
	query := r.URL.Query()
	if query.Has("versions") {
		return map[string]string{http.MethodGet: "ListObjectVersions"}[r.Method]
	}
	for name, setting := range settings() {
		if verb := map[string]string{http.MethodGet: "Get", http.MethodPut: "Put"}[r.Method]; verb != "" && query.Has(name) {
			return verb + setting
		}
	}
	switch {
	case r.Method == http.MethodPost && query.Has("delete"):
		return "DeleteObjects"
	case r.Method == http.MethodGet && query.Get("list-type") == "2":
		return "ListObjectsV2"
	case r.Method == http.MethodGet && query.Has("location"):
		return "GetBucketLocation"
	case !subresource(query):
		return map[string]string{
			http.MethodGet: "ListObjects", http.MethodPut: "CreateBucket", http.MethodHead: "HeadBucket",
			http.MethodDelete: "DeleteBucket",
		}[r.Method]
	}
	return ""
}

// objectOp names a call on an object.
func objectOp(r *http.Request) string {
	query := r.URL.Query()
	if query.Has("retention") {
		return map[string]string{http.MethodGet: "GetObjectRetention", http.MethodPut: "PutObjectRetention"}[r.Method]
	}
	if subresource(query) || r.Method == http.MethodPut && query.Has("versionId") || r.Header.Get("X-Amz-Copy-Source") != "" {
		return ""
	}
	return map[string]string{
		http.MethodGet: "GetObject", http.MethodPut: "PutObject", http.MethodHead: "HeadObject",
		http.MethodDelete: "DeleteObject",
	}[r.Method]
}

// subresource reports whether the query asks for something beside the object itself: multipart uploads,
// tags, and what else this server does not have.
func subresource(query map[string][]string) bool {
	for _, name := range []string{
		"uploads", "uploadId", "partNumber", "versioning", "tagging", "acl", "policy",
		"attributes", "lifecycle", "cors", "encryption", "object-lock", "retention", "legal-hold", "notification",
	} {
		if _, ok := query[name]; ok {
			return true
		}
	}
	return false
}

// s3Error is S3's answer to a call that it refuses.
type s3Error struct {
	code, message string
}

func (e *s3Error) write(w http.ResponseWriter, c *call) {
	code := e.code
	if code == "" {
		code = "InternalError"
	}
	w.Header().Set("Content-Type", "application/xml")
	body, _ := xml.Marshal(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
		Key     string `xml:",omitempty"`
		Bucket  string `xml:"BucketName,omitempty"`
	}{Code: code, Message: e.message, Key: c.key, Bucket: c.bucket})
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(statusOf(code))
	if c.r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// statusOf is the HTTP status that S3 sends with a code; 500 for one that it does not have.
func statusOf(code string) int {
	switch code {
	case "InvalidRange":
		return http.StatusRequestedRangeNotSatisfiable
	case "NoSuchKey", "NoSuchVersion", "NoSuchBucket", "NotFound", "NoSuchLifecycleConfiguration", "ObjectLockConfigurationNotFoundError",
		"NoSuchObjectLockConfiguration":
		return http.StatusNotFound
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "AllAccessDisabled":
		return http.StatusForbidden
	case "MethodNotAllowed":
		return http.StatusMethodNotAllowed
	case "PreconditionFailed":
		return http.StatusPreconditionFailed
	case "ConditionalRequestConflict", "BucketNotEmpty", "OperationAborted":
		return http.StatusConflict
	case "SlowDown", "ServiceUnavailable", "Busy":
		return http.StatusServiceUnavailable
	case "BadDigest", "InvalidDigest", "ExpiredToken", "RequestTimeout", "IncompleteBody", "InvalidArgument", "InvalidRequest",
		"KeyTooLongError", "MalformedTrailerError", "XAmzContentSHA256Mismatch", "MalformedXML", "InvalidBucketName", "AuthorizationHeaderMalformed":
		return http.StatusBadRequest
	case "PermanentRedirect":
		return http.StatusMovedPermanently
	case "NotImplemented":
		return http.StatusNotImplemented
	default:
		return http.StatusInternalServerError
	}
}

func writeXML(v any) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		body, err := xml.Marshal(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(append([]byte(xml.Header), body...)) // the client may be gone
	}
}

func writeStatus(status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status) }
}
