package objstoretest

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"
)

// retention is Object Lock's, of one version of an object.
type retention struct {
	XMLName         xml.Name `xml:"Retention"`
	Mode            string
	RetainUntilDate time.Time
}

// retained finds the object of a call about its retention. The caller holds s.mu.
func (s *Server) retained(c *call) (map[string]stored, *s3Error) {
	bucket, failed := s.bucket(c)
	if failed != nil {
		return nil, failed
	}
	if !strings.Contains(string(s.settings[c.bucket+" GetObjectLockConfiguration"]), "Enabled") {
		return nil, &s3Error{code: "InvalidRequest", message: "Bucket is missing Object Lock Configuration"}
	}
	if _, ok := bucket[c.key]; !ok {
		return nil, &s3Error{code: "NoSuchKey", message: "The specified key does not exist."}
	}
	return bucket, nil
}

func (s *Server) getRetention(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.retained(c)
	if failed != nil {
		return nil, failed
	}
	r := bucket[c.key].retention
	if r.Mode == "" {
		return nil, &s3Error{
			code: "NoSuchObjectLockConfiguration", message: "The specified object does not have a ObjectLock configuration",
		}
	}
	return writeXML(r), nil
}

// putRetention makes a retention longer or stronger; what would make it shorter or weaker needs a permission that no
// client here has.
func (s *Server) putRetention(c *call) (func(http.ResponseWriter), *s3Error) {
	body, _, _, failed := payload(c.r)
	if failed != nil {
		return nil, failed
	}
	var wanted retention
	if err := xml.Unmarshal(body, &wanted); err != nil {
		return nil, &s3Error{code: "MalformedXML", message: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, failed := s.retained(c)
	if failed != nil {
		return nil, failed
	}
	s.mutates(c)
	o := bucket[c.key]
	switch has := o.retention; {
	case !wanted.RetainUntilDate.After(time.Now().Add(s.skew)):
		return nil, &s3Error{code: "InvalidArgument", message: "The retain until date must be in the future!"}
	case wanted.RetainUntilDate.Before(has.RetainUntilDate), has.Mode == "COMPLIANCE" && wanted.Mode != "COMPLIANCE":
		return nil, &s3Error{code: "AccessDenied", message: "Access Denied because object protected by object lock."}
	}
	o.retention = wanted
	bucket[c.key] = o
	return writeStatus(http.StatusOK), nil
}
