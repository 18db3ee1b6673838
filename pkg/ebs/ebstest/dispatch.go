package ebstest

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// action is one API. Its run is called with the lock held, at a random instant within the call's latency.
type action struct {
	name     string
	mutating bool
	// target names what the call is about, for MutatingCalls.
	target string
	run    func(*Server, request) (any, error)
}

var actions = map[string]action{
	"CreateSnapshots": {mutating: true, target: "InstanceSpecification.InstanceId", run: (*Server).createSnapshots},
	"CreateSnapshot":  {mutating: true, target: "VolumeId", run: (*Server).createSnapshot},
	"DeleteSnapshot":  {mutating: true, target: "SnapshotId", run: (*Server).deleteSnapshot},
	"CreateVolume":    {mutating: true, target: "SnapshotId", run: (*Server).createVolume},
	"DeleteVolume":    {mutating: true, target: "VolumeId", run: (*Server).deleteVolume},
	"AttachVolume":    {mutating: true, target: "VolumeId", run: (*Server).attachVolume},
	"DetachVolume":    {mutating: true, target: "VolumeId", run: (*Server).detachVolume},
	"CreateTags":      {mutating: true, target: "ResourceId.1", run: (*Server).createTags},
	"ModifyVolume":    {mutating: true, target: "VolumeId", run: (*Server).modifyVolume},
	"CopySnapshot":    {mutating: true, target: "SourceSnapshotId", run: (*Server).copySnapshot},
	"LockSnapshot":    {mutating: true, target: "SnapshotId", run: (*Server).lockSnapshot},
	"UnlockSnapshot":  {mutating: true, target: "SnapshotId", run: (*Server).unlockSnapshot},

	"ModifySnapshotTier":          {mutating: true, target: "SnapshotId", run: (*Server).modifySnapshotTier},
	"RestoreSnapshotTier":         {mutating: true, target: "SnapshotId", run: (*Server).restoreSnapshotTier},
	"ModifySnapshotAttribute":     {mutating: true, target: "SnapshotId", run: (*Server).modifySnapshotAttribute},
	"EnableFastSnapshotRestores":  {mutating: true, target: "SourceSnapshotId.1", run: (*Server).enableFastRestores},
	"DisableFastSnapshotRestores": {mutating: true, target: "SourceSnapshotId.1", run: (*Server).disableFastRestores},

	"TerminateInstances":        {mutating: true, target: "InstanceId.1", run: (*Server).terminateInstances},
	"DescribeInstances":         {run: (*Server).describeInstances},
	"DescribeVolumes":           {run: (*Server).describeVolumes},
	"DescribeSnapshots":         {run: (*Server).describeSnapshots},
	"DescribeAvailabilityZones": {run: (*Server).describeZones},
	"DescribeVolumeStatus":      {run: (*Server).describeVolumeStatus},
	"DescribeLockedSnapshots":   {run: (*Server).describeLockedSnapshots},
	"GetEbsDefaultKmsKeyId":     {run: (*Server).getDefaultKey},
	"GetEbsEncryptionByDefault": {run: (*Server).getEncryptionByDefault},
	"GetCallerIdentity":         {run: (*Server).callerIdentity},
	"AssumeRole":                {run: (*Server).assumeRole},

	"DescribeSnapshotTierStatus":   {run: (*Server).describeSnapshotTierStatus},
	"DescribeSnapshotAttribute":    {run: (*Server).describeSnapshotAttribute},
	"DescribeVolumesModifications": {run: (*Server).describeModifications},
	"DescribeFastSnapshotRestores": {run: (*Server).describeFastRestores},
}

// service is the API that an action belongs to, as IAM spells it.
func (a action) service() string {
	switch a.name {
	case "GetCallerIdentity", "AssumeRole":
		return "sts"
	case "GetServiceQuota", "ListServiceQuotas":
		return "servicequotas"
	case "DescribeKey", "Encrypt", "Decrypt":
		return "kms"
	default:
		return "ec2"
	}
}

// ServeHTTP answers one call of the query protocol, of Service Quotas or KMS, or of the EBS direct APIs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.direct != nil && IsDirect(r) {
		s.direct.ServeHTTP(w, r)
		return
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), quotaTarget) {
		s.serveQuotas(w, r)
		return
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Target"), keyTarget) {
		s.serveKeys(w, r)
		return
	}
	if err := r.ParseForm(); err != nil {
		refuse(w, refusal("MalformedQueryString", "%v", err))
		return
	}
	req := request{form: r.Form}
	name := req.text("Action")
	act, ok := actions[name]
	if !ok {
		refuse(w, refusal("InvalidAction", "The action %s is not valid for this web service.", name))
		return
	}
	act.name = name
	if act.mutating && !req.flag("DryRun") {
		s.note(strings.TrimSpace(name + " " + req.text(act.target)))
	}
	strike, refuse := s.cfg.Faults.At(act.service()+"."+name), refuse
	if act.service() == "sts" {
		refuse = refuseSTS
	}
	if done := s.struck(w, r, strike, refuse); done {
		return
	}
	if name == "CopySnapshot" && !req.flag("DryRun") {
		req.late = s.cfg.Faults.At(lateCopy)
	}
	answer, err := s.perform(r.Context(), act, req)
	if strike != nil && strike.Position == fault.After {
		hangUp(w)
		return
	}
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, answer)
}

// struck carries out what a fault does before a call, and reports whether the call ends with it.
func (s *Server) struck(w http.ResponseWriter, r *http.Request, strike *fault.Strike, refuse func(http.ResponseWriter, error)) bool {
	if err := strike.Wait(r.Context()); err != nil {
		return true // stalled until the client went away
	}
	if strike != nil && strike.Position == fault.Before {
		refuse(w, refusal(cmp.Or(strike.Code, "InternalError"), "refused by a fault"))
		return true
	}
	return false
}

func (s *Server) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mutating = append(s.mutating, call)
}

// perform takes the latency partly before and partly after the effect, so that an effect's instant is
// anywhere inside its call. An effect that the client no longer waits for happens all the same.
func (s *Server) perform(ctx context.Context, act action, req request) (any, error) {
	before, after := s.latency(act.name)
	_ = s.wait(ctx, before) // a client that goes away does not stop EC2
	s.mu.Lock()
	answer, err := s.run(act, req)
	if err != nil && !req.flag("DryRun") {
		s.refused = append(s.refused, Refused{act.name, CodeOf(err)})
	}
	s.mu.Unlock()
	_ = s.wait(ctx, after)
	return answer, err
}

func (s *Server) latency(name string) (before, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.draw(s.rules.Latency[name])
	if all == 0 {
		return 0, 0
	}
	before = s.draw(Span{0, all})
	return before, all - before
}

func (s *Server) wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return s.cfg.Clock.Sleep(ctx, d)
}

// run checks bucket and permission, and does it. Dry runs are ended by the action itself, after it has
// checked its parameters.
func (s *Server) run(act action, req request) (any, error) {
	if act.service() == "sts" { // has no bucket, and needs no permission that a policy of EC2 could give
		return act.run(s, req)
	}
	if !s.takeToken(act, req) {
		return nil, refusal("RequestLimitExceeded", "Request limit exceeded.")
	}
	if missing := s.missing(act, req); missing != "" {
		return nil, refusal("UnauthorizedOperation",
			"You are not authorized to perform this operation. User: arn:aws:iam::%s:user/test is not authorized to perform: %s",
			s.cfg.Account, missing)
	}
	s.settle()
	if act.mutating {
		defer s.settle() // copies of a snapshot that is gone now know it now
	}
	return act.run(s, req)
}

// dryRun ends a call whose parameters are right and that is only a question.
func dryRun(req request) error {
	if req.flag("DryRun") {
		return refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return nil
}

// hangUp breaks the connection without an answer.
func hangUp(w http.ResponseWriter) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	_ = conn.Close() // the client is to see a broken connection
}

func write(w http.ResponseWriter, status int, answer any) {
	body, err := xml.Marshal(answer)
	if err != nil {
		http.Error(w, fmt.Sprintf("encode answer: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(status)
	_, _ = w.Write(append([]byte(xml.Header), body...)) // the client may have gone
}
