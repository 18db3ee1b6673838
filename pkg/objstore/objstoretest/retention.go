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

// retained finds the version that a call about its retention is about. The caller holds s.mu.
func (s *Server) retained(c *call) (*stored, *s3Error) {
	if _, failed := s.bucket(c); failed != nil {
		return nil, failed
	}
	if !s.locks(c.bucket) {
		return nil, &s3Error{code: "InvalidRequest", message: "Bucket is missing Object Lock Configuration"}
	}
	return s.version(c)
}

func (s *Server) locks(bucket string) bool {
	return strings.Contains(string(s.settings[bucket+" GetObjectLockConfiguration"]), "Enabled")
}

// retentionOf is that of an object that is written: the headers', or the bucket's default. The caller holds s.mu.
func (s *Server) retentionOf(c *call) (r retention, failed *s3Error) {
	r.Mode = c.r.Header.Get("X-Amz-Object-Lock-Mode")
	until := c.r.Header.Get("X-Amz-Object-Lock-Retain-Until-Date")
	now := time.Now().Add(s.skew)
	switch {
	case r.Mode+until == "":
		var usual struct {
			Mode  string `xml:"Rule>DefaultRetention>Mode"`
			Days  int    `xml:"Rule>DefaultRetention>Days"`
			Years int    `xml:"Rule>DefaultRetention>Years"`
		}
		err := xml.Unmarshal(s.settings[c.bucket+" GetObjectLockConfiguration"], &usual)
		if err == nil && usual.Mode != "" {
			r.Mode, r.RetainUntilDate = usual.Mode, now.AddDate(usual.Years, 0, usual.Days).UTC()
		}
		return r, nil
	case !s.locks(c.bucket):
		return r, &s3Error{code: "InvalidRequest", message: "Bucket is missing Object Lock Configuration"}
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil || r.Mode != "GOVERNANCE" && r.Mode != "COMPLIANCE" {
		return r, &s3Error{code: "InvalidArgument", message: "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"}
	}
	if !at.After(now) {
		return r, &s3Error{code: "InvalidArgument", message: "The retain until date must be in the future!"}
	}
	r.RetainUntilDate = at
	return r, nil
}

func (s *Server) getRetention(c *call) (func(http.ResponseWriter), *s3Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, failed := s.retained(c)
	if failed != nil {
		return nil, failed
	}
	r := o.retention
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
	o, failed := s.retained(c)
	if failed != nil {
		return nil, failed
	}
	s.mutates(c)
	switch has := o.retention; {
	case !wanted.RetainUntilDate.After(time.Now().Add(s.skew)):
		return nil, &s3Error{code: "InvalidArgument", message: "The retain until date must be in the future!"}
	case wanted.RetainUntilDate.Before(has.RetainUntilDate), has.Mode == "COMPLIANCE" && wanted.Mode != "COMPLIANCE":
		return nil, &s3Error{code: "AccessDenied", message: "Access Denied because object protected by object lock."}
	}
	o.retention = wanted
	s.set(c, o)
	return writeStatus(http.StatusOK), nil
}
