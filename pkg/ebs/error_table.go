package ebs

import (
	"errors"
	"net"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/failure"
)

// retry is whether and how a refused call may be sent again.
type retry uint8

const (
	never     retry = iota // repeating the call gives the same answer
	later                  // nothing happened; the caller may retry, within its own deadline
	throttled              // nothing happened; soon
	spaced                 // nothing happened; not before 15 s: EC2's spacing of one volume's snapshots
	queued                 // nothing happened; retry once others' work is done
	unsent                 // the request never reached EC2
	ambiguous              // it may have happened
)

// class is what a caller can do about one of EC2's codes.
type class struct {
	kind  failure.Kind
	retry retry
	hint  string
}

// Hints that several codes share.
const (
	hintCredentials = "check the credentials and the clock of this machine"
	hintPending     = "wait for pending snapshots of the account to complete, or ask AWS to raise the quota"
	hintQuota       = "raise the quota in Service Quotas, or free some of it"
)

// codes is the one table of EC2, STS, Service Quotas and KMS error codes. A missing code is interpreted by its name,
// else Unknown. Sources: AWS's list of EC2 error codes, and reports by others.
var codes = map[string]class{
	"RequestLimitExceeded": {
		failure.Limited, throttled, "run fewer tools against this account and region, or ask AWS for a larger bucket",
	},
	"Throttling":                {failure.Limited, throttled, ""},
	"ThrottlingException":       {failure.Limited, throttled, ""},
	"RequestThrottled":          {failure.Limited, throttled, ""},
	"RequestThrottledException": {failure.Limited, throttled, ""},
	"EC2ThrottledException":     {failure.Limited, throttled, ""},

	"SnapshotCreationPerVolumeRateExceeded": {
		failure.Limited, spaced, "wait 15 s after the last snapshot of the volume",
	},
	"PendingSnapshotLimitExceeded": {failure.Limited, queued, hintPending},
	"ConcurrentSnapshotLimitExceeded": {
		failure.Limited, queued,
		"wait for the volume's pending snapshots to complete; deleted and failed ones count too",
	},
	"FilterLimitExceeded":      {failure.Usage, never, ""},
	"ResourceLimitExceeded":    {failure.Limited, queued, hintQuota},
	"CopyVolumesLimitExceeded": {failure.Limited, queued, hintQuota},
	"SnapshotLimitExceeded": {
		failure.Limited, never, "delete old backups, or raise the quota of snapshots in the region",
	},
	"VolumeLimitExceeded":  {failure.Limited, never, hintQuota},
	"VolumeIOPSLimit":      {failure.Limited, never, hintQuota},
	"MaxIOPSLimitExceeded": {failure.Limited, never, hintQuota},
	"VolumeModificationRateExceeded": {
		failure.Limited, never,
		"wait: EC2 allows four modifications of one volume in 24 hours",
	},
	"VolumeModificationSizeLimitExceeded": {failure.Limited, never, hintQuota},
	"InsufficientVolumeCapacity":          {failure.Limited, later, "choose another volume type or zone"},

	"TagLimitExceeded":             {failure.Usage, never, "use fewer tags: EC2 allows 50 on a resource"},
	"VolumeTypeNotAvailableInZone": {failure.Usage, never, "choose another volume type or zone"},
	"InvalidParameter":             {failure.Usage, never, ""},
	"InvalidParameterValue":        {failure.Usage, never, ""},
	"InvalidParameterDependency":   {failure.Usage, never, ""},
	"InvalidParameterCombination":  {failure.Usage, never, ""},
	"InvalidArgument":              {failure.Usage, never, ""},
	"InvalidRequest":               {failure.Usage, never, ""},
	"InvalidAction": {
		failure.Usage, never, "the endpoint does not know this call: check the endpoint URL",
	},
	"MissingParameter":            {failure.Usage, never, ""},
	"MissingAction":               {failure.Usage, never, ""},
	"UnknownParameter":            {failure.Usage, never, ""},
	"UnsupportedOperation":        {failure.Usage, never, ""},
	"ValidationError":             {failure.Usage, never, ""},
	"InvalidID":                   {failure.Usage, never, ""},
	"InvalidSnapshotID.Malformed": {failure.Usage, never, ""},
	"InvalidVolumeID.Malformed":   {failure.Usage, never, ""},
	"InvalidInstanceID.Malformed": {failure.Usage, never, ""},
	"InvalidUserID.Malformed":     {failure.Usage, never, "an account number has 12 digits"},
	"InvalidTagKey.Malformed":     {failure.Usage, never, ""},

	"InvalidSnapshot.NotFound":   {failure.NotFound, never, ""},
	"InvalidVolume.NotFound":     {failure.NotFound, never, ""},
	"InvalidInstanceID.NotFound": {failure.NotFound, never, ""},
	"InvalidZone.NotFound":       {failure.NotFound, never, "choose a zone of this region"},

	"IdempotentParameterMismatch": {failure.Conflict, never, "use a new client token"},
	"NoSuchResourceException":     {failure.NotFound, never, ""},
	"NotFoundException":           {failure.NotFound, never, ""}, // KMS
	"InvalidArnException":         {failure.Usage, never, ""},    // KMS
	"DisabledException":           {failure.Unready, never, "enable the KMS key"},
	"KMSInvalidStateException":    {failure.Unready, never, "cancel the deletion of the KMS key, and enable it"},
	"InvalidCiphertextException":  {failure.Corrupt, never, ""}, // KMS: or another encryption context
	"IncorrectKeyException":       {failure.Corrupt, never, ""}, // KMS
	"InvalidKeyUsageException":    {failure.Usage, never, "use a symmetric KMS key that encrypts and decrypts"},
	"KeyUnavailableException":     {failure.Unknown, ambiguous, ""}, // KMS
	"KMSInternalException":        {failure.Unknown, ambiguous, ""},
	"DependencyTimeoutException":  {failure.Unknown, ambiguous, ""}, // KMS
	"TooManyRequestsException":    {failure.Limited, throttled, ""},
	"ServiceException":            {failure.Unknown, ambiguous, ""},
	"VolumeInUse":                 {failure.Conflict, never, "detach the volume first"},
	"InvalidVolume.ZoneMismatch":  {failure.Conflict, never, ""},
	"SnapshotLocked":              {failure.Conflict, never, "wait until the snapshot's lock expires"},
	"InvalidSnapshot.InUse":       {failure.Conflict, never, "deregister the image that uses the snapshot first"},
	"IncorrectState":              {failure.Unready, never, ""},
	"IncorrectInstanceState":      {failure.Unready, never, ""},
	"IncorrectModificationState":  {failure.Unready, never, "wait until the modification before is completed"},

	"UnauthorizedOperation":       {failure.Denied, never, ""},
	"AccessDenied":                {failure.Denied, never, ""},
	"AccessDeniedException":       {failure.Denied, never, ""},
	notPermitted:                  {failure.Denied, never, ""},
	"AuthFailure":                 {failure.Denied, never, hintCredentials},
	"Blocked":                     {failure.Denied, never, "contact AWS Support: the account is blocked"},
	"ExpiredToken":                {failure.Denied, never, hintCredentials},
	"ExpiredTokenException":       {failure.Denied, never, hintCredentials},
	"RequestExpired":              {failure.Denied, never, hintCredentials},
	"InvalidClientTokenId":        {failure.Denied, never, hintCredentials},
	"SignatureDoesNotMatch":       {failure.Denied, never, hintCredentials},
	"IncompleteSignature":         {failure.Denied, never, hintCredentials},
	"MissingAuthenticationToken":  {failure.Denied, never, hintCredentials},
	"UnrecognizedClientException": {failure.Denied, never, hintCredentials},
	"OptInRequired":               {failure.Denied, never, "subscribe the account to EC2 in this region"},
	"PendingVerification":         {failure.Denied, never, "wait for AWS to verify the account"},

	"InternalError":      {failure.Unknown, ambiguous, ""},
	"InternalFailure":    {failure.Unknown, ambiguous, ""},
	"ServerInternal":     {failure.Unknown, ambiguous, ""},
	"ServiceUnavailable": {failure.Unknown, ambiguous, ""},
	"Unavailable":        {failure.Unknown, ambiguous, ""},
	"RequestTimeout":     {failure.Unknown, ambiguous, ""},
}

// notPermitted is the code for what the state of a resource does not allow, or the account to no one.
const notPermitted = "OperationNotPermitted"

// dryRunAllowed is EC2's code for a dry run that would have been allowed.
const dryRunAllowed = "DryRunOperation"

// codeOf is the service's error code, or "" if it gave no answer.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// classify looks an error of the SDK up. Errors that are classified already keep their kind.
func classify(err error) class {
	if err == nil {
		return class{}
	}
	var known *failure.Error
	if errors.As(err, &known) {
		return class{kind: failure.KindOf(err), hint: failure.HintOf(err)}
	}
	if code := codeOf(err); code != "" {
		if v, ok := codes[code]; ok {
			return v
		}
		if v, ok := byName(code); ok {
			return v
		}
		var api smithy.APIError
		if errors.As(err, &api); api.ErrorFault() == smithy.FaultServer || serverStatus(err) {
			return class{retry: ambiguous}
		}
		return class{}
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return class{retry: unsent, hint: "check the network and the endpoint URL"}
	}
	return class{retry: ambiguous} // no answer, half an answer, or the caller went away
}

// byName reads a code that is not in the table by the way in which EC2 names its codes.
func byName(code string) (class, bool) {
	switch {
	case strings.HasSuffix(code, "LimitExceeded"):
		return class{failure.Limited, never, hintQuota}, true
	case strings.HasSuffix(code, ".NotFound"):
		return class{failure.NotFound, never, ""}, true
	case strings.HasSuffix(code, ".Malformed"):
		return class{failure.Usage, never, ""}, true
	default:
		return class{}, false
	}
}

// serverStatus reports an HTTP status of 500 or more.
func serverStatus(err error) bool {
	var response interface{ HTTPStatusCode() int }
	return errors.As(err, &response) && response.HTTPStatusCode() >= 500
}

// translate makes err a failure.Error by the table. Errors that are one already are passed on.
func translate(err error, op operation, target string) error {
	var known *failure.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	v := classify(err)
	if op.notPermitted != "" && codeOf(err) == notPermitted {
		v.kind, v.hint = failure.Conflict, op.notPermitted
	}
	e := failure.New(v.kind, op.verb, target, "%w", failure.Remote(err))
	if v.retry == never && v.kind == failure.Limited { // the other kinds that waiting does not fix need no addition
		e = e.Lasting()
	}
	if v.hint == "" && v.kind == failure.Denied && op.action != "" {
		return e.WithHint("allow %s to the role that runs this tool", op.needs())
	}
	if v.hint != "" {
		return e.WithHint("%s", v.hint)
	}
	return e
}
