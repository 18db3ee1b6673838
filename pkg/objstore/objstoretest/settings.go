package objstoretest

import (
	"encoding/xml"
	"net/http"
	"time"
)

// settings maps the subresources of a bucket that the server keeps to the names of their calls, without Get and Put.
func settings() map[string]string {
	return map[string]string{
		"versioning": "BucketVersioning", "lifecycle": "BucketLifecycleConfiguration", "object-lock": "ObjectLockConfiguration",
	}
}

// notSet are the answers to a Get of what was never put. A bucket without versioning has an empty one.
func notSet() map[string]*s3Error {
	return map[string]*s3Error{
		"GetBucketLifecycleConfiguration": {code: "NoSuchLifecycleConfiguration", message: "The lifecycle configuration does not exist"},
		"GetObjectLockConfiguration": {
			code: "ObjectLockConfigurationNotFoundError", message: "Object Lock configuration does not exist for this bucket",
		},
	}
}

// putSetting keeps a configuration as it is; nothing is done by it.
func (s *Server) putSetting(c *call) (func(http.ResponseWriter), *s3Error) {
	body, _, _, failed := payload(c.r)
	if failed != nil {
		return nil, failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	if err := xml.Unmarshal(body, new(struct{})); err != nil {
		return nil, &s3Error{code: "MalformedXML", message: err.Error()}
	}
	s.mutates(c)
	s.settings[c.bucket+" Get"+c.op[len("Put"):]] = body
	return writeStatus(http.StatusOK), nil
}

func (s *Server) getSetting(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	body, put := s.settings[c.bucket+" "+c.op]
	switch failed := notSet()[c.op]; {
	case put:
	case failed != nil:
		return nil, failed
	default:
		body = []byte("<VersioningConfiguration/>")
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(body) // the client may be gone
	}, nil
}

// LockBucket sets what a bucket made with Object Lock has: versions, too.
func (s *Server) LockBucket(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings[name+" GetBucketVersioning"] = []byte(
		"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	s.setObjectLock(name, "")
}

// SetObjectLock gives a bucket with Object Lock a rule, in XML: a default retention.
func (s *Server) SetObjectLock(name, rule string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setObjectLock(name, rule)
}

func (s *Server) setObjectLock(name, rule string) {
	s.settings[name+" GetObjectLockConfiguration"] = []byte(
		"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>" + rule + "</ObjectLockConfiguration>")
}

// Skew sets how far the server's clock is ahead.
func (s *Server) Skew(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew = ahead
}

// IgnoreConditions makes the server write objects whatever their conditions, as old stores do.
func (s *Server) IgnoreConditions(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unconditional = on
}

// now is the server's time.
func (s *Server) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.skew).UTC()
}
