package objstoretest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// stored is an object in a bucket.
type stored struct {
	object
	checksumName, checksumValue string
	contentType                 string
	retention                   retention // of this version
	id                          string    // of the version; "null" in a bucket without versions
	marker                      bool      // a delete marker
}

// maxKeyBytes is S3's limit.
const maxKeyBytes = 1024

func (s *Server) putObject(c *call) (func(http.ResponseWriter), *s3Error) {
	body, name, value, failed := payload(c.r)
	if failed != nil {
		return nil, failed
	}
	if len(c.key) > maxKeyBytes {
		return nil, &s3Error{code: "KeyTooLongError", message: "Your key is too long"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	s.mutates(c)
	if failed := admit(c.r, bucket, c.key); failed != nil && !s.unconditional {
		return nil, failed
	}
	o := stored{object: newObject(body), checksumName: name, checksumValue: value, contentType: c.r.Header.Get("Content-Type")}
	if o.retention, failed = s.retentionOf(c); failed != nil {
		return nil, failed
	}
	s.add(c.bucket, c.key, &o)
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", `"`+o.etag+`"`)
		w.Header().Set("X-Amz-Version-Id", o.id)
		w.Header().Set(o.checksumName, o.checksumValue)
		w.WriteHeader(http.StatusOK)
	}, nil
}

// admit checks the conditions of a write. A condition on an object that does not exist is not a failed
// precondition on S3 but a missing key.
func admit(r *http.Request, bucket map[string]stored, key string) *s3Error {
	current, exists := bucket[key]
	if condition := r.Header.Get("If-None-Match"); condition != "" {
		if condition != "*" {
			return &s3Error{code: "NotImplemented", message: "If-None-Match with a value other than *"}
		}
		if exists {
			return &s3Error{code: "PreconditionFailed", message: "At least one of the pre-conditions you specified did not hold"}
		}
	}
	if condition := r.Header.Get("If-Match"); condition != "" {
		if !exists {
			return &s3Error{code: "NoSuchKey", message: "The specified key does not exist."}
		}
		if strings.Trim(condition, `"`) != current.etag {
			return &s3Error{code: "PreconditionFailed", message: "At least one of the pre-conditions you specified did not hold"}
		}
	}
	return nil
}

func (s *Server) getObject(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, failed := s.version(c)
	if failed != nil {
		return nil, failed
	}
	body := o.body
	first := -1
	if _, err := fmt.Sscanf(c.r.Header.Get("Range"), "bytes=%d-", &first); err == nil && first >= len(body) {
		return nil, &s3Error{code: "InvalidRange", message: "The requested range is not satisfiable"}
	}
	if c.corrupt && len(body) > 0 {
		body = bytes.Clone(body)
		body[len(body)/2] ^= 1
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("ETag", `"`+o.etag+`"`)
		w.Header().Set("Content-Type", o.contentType)
		if c.r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" && c.r.Header.Get("Range") == "" {
			w.Header().Set(o.checksumName, o.checksumValue)
		}
		http.ServeContent(w, c.r, "", o.modified, bytes.NewReader(body))
	}, nil
}

func (s *Server) deleteObject(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	if c.r.URL.Query().Has("versionId") {
		return s.deleteVersion(c)
	}
	if failed := admit(c.r, bucket, c.key); failed != nil {
		return nil, failed
	}
	s.mutates(c)
	s.remove(c.bucket, c.key)
	return writeStatus(http.StatusNoContent), nil
}

func (s *Server) deleteObjects(c *call) (func(http.ResponseWriter), *s3Error) {
	body, _, _, failed := payload(c.r)
	if failed != nil {
		return nil, failed
	}
	type entry struct{ Key string }
	var request struct {
		Quiet   bool
		Objects []entry `xml:"Object"`
	}
	if err := xml.Unmarshal(body, &request); err != nil {
		return nil, &s3Error{code: "MalformedXML", message: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	var result struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []entry
	}
	for _, o := range request.Objects {
		s.mutating = append(s.mutating, "DeleteObject "+c.bucket+"/"+o.Key)
		s.remove(c.bucket, o.Key)
		if !request.Quiet {
			result.Deleted = append(result.Deleted, o)
		}
	}
	return writeXML(result), nil
}

func (s *Server) createBucket(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	s.mutates(c)
	s.mu.Unlock()
	s.CreateBucket(c.bucket)
	if c.r.Header.Get("X-Amz-Bucket-Object-Lock-Enabled") == "true" {
		s.LockBucket(c.bucket)
	}
	return writeStatus(http.StatusOK), nil
}

func (s *Server) deleteBucket(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	s.mutates(c)
	if len(bucket)+len(s.behind[c.bucket]) > 0 {
		return nil, &s3Error{code: "BucketNotEmpty", message: "The bucket you tried to delete is not empty"}
	}
	delete(s.buckets, c.bucket)
	return writeStatus(http.StatusNoContent), nil
}

// headBucket answers GetBucketLocation too: an empty constraint is us-east-1.
func (s *Server) headBucket(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	if c.op == "HeadBucket" {
		return writeStatus(http.StatusOK), nil
	}
	return writeXML(struct {
		XMLName xml.Name `xml:"LocationConstraint"`
	}{}), nil
}

func (s *Server) listBuckets(*call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type bucket struct{ Name, CreationDate string }
	var result struct {
		XMLName xml.Name `xml:"ListAllMyBucketsResult"`
		Buckets []bucket `xml:"Buckets>Bucket"`
	}
	for name := range s.buckets {
		result.Buckets = append(result.Buckets, bucket{name, time.Unix(0, 0).UTC().Format(time.RFC3339)})
	}
	return writeXML(result), nil
}

// bucket finds the call's bucket. The caller holds s.mu.
func (s *Server) bucket(c *call) (map[string]stored, *s3Error) {
	b, ok := s.buckets[c.bucket]
	if !ok {
		return nil, &s3Error{code: "NoSuchBucket", message: "The specified bucket does not exist"}
	}
	return b, nil
}
