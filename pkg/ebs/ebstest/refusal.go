package ebstest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// apiError is an error in EC2's words.
type apiError struct{ code, message string }

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refusal(code, format string, args ...any) *apiError {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

// CodeOf is EC2's error code of an error that a Go-side method of Server returned, or "".
func CodeOf(err error) string {
	var e *apiError
	if errors.As(err, &e) {
		return e.code
	}
	return ""
}

type errorAnswer struct {
	XMLName   xml.Name `xml:"Response"`
	Code      string   `xml:"Errors>Error>Code"`
	Message   string   `xml:"Errors>Error>Message"`
	RequestID string   `xml:"RequestID"`
}

// Codes that come with HTTP 5xx, as from EC2.
var (
	unavailableCodes = []string{"RequestLimitExceeded", "ServiceUnavailable", "Unavailable"}
	internalCodes    = []string{"InternalError", "InternalFailure", "ServerInternal"}
	forbiddenCodes   = []string{"UnauthorizedOperation", "AuthFailure"}
)

func asRefusal(err error) *apiError {
	e := &apiError{code: "InternalError", message: err.Error()}
	errors.As(err, &e)
	return e
}

func statusOf(code string) int {
	switch {
	case slices.Contains(unavailableCodes, code):
		return http.StatusServiceUnavailable
	case slices.Contains(internalCodes, code):
		return http.StatusInternalServerError
	case slices.Contains(forbiddenCodes, code):
		return http.StatusForbidden
	case code == "DryRunOperation":
		return http.StatusPreconditionFailed
	default:
		return http.StatusBadRequest
	}
}

func refuse(w http.ResponseWriter, err error) {
	e := asRefusal(err)
	write(w, statusOf(e.code), errorAnswer{Code: e.code, Message: e.message, RequestID: "00000000-0000-0000-0000-000000000000"})
}

// refuseSTS writes an error as STS does, which nests it otherwise than EC2.
func refuseSTS(w http.ResponseWriter, err error) {
	e := asRefusal(err)
	write(w, statusOf(e.code), struct {
		XMLName xml.Name `xml:"ErrorResponse"`
		Code    string   `xml:"Error>Code"`
		Message string   `xml:"Error>Message"`
	}{Code: e.code, Message: e.message})
}
