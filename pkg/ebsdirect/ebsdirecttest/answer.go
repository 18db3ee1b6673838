package ebsdirecttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// answer is what a call is answered with: body is raw bytes or is encoded as JSON.
type answer struct {
	status int
	header map[string]string
	body   any
}

func write(w http.ResponseWriter, a answer) {
	for key, value := range a.header {
		w.Header().Set(key, value)
	}
	raw, ok := a.body.([]byte)
	if ok {
		w.Header().Set("Content-Type", "application/octet-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
		raw, _ = json.Marshal(a.body) // plain structs and maps
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(raw) // the client may have gone
}

// apiError is an error in the service's words.
type apiError struct{ code, reason, message string }

func (e *apiError) Error() string { return e.name() + ": " + e.message }

func (e *apiError) name() string {
	if e.reason == "" {
		return e.code
	}
	return e.code + "/" + e.reason
}

func refusal(code, reason, format string, args ...any) *apiError {
	return &apiError{code, reason, fmt.Sprintf(format, args...)}
}

func invalid(reason, format string, args ...any) *apiError {
	return refusal("ValidationException", reason, format, args...)
}

func asRefusal(err error) *apiError {
	e := refusal("InternalServerException", "", "%v", err)
	errors.As(err, &e)
	return e
}

// answer is an error with the status that the API reference has for its code.
func (e *apiError) answer() answer {
	status, ok := map[string]int{
		"AccessDeniedException": http.StatusForbidden, "ConflictException": http.StatusServiceUnavailable,
		"InternalServerException": http.StatusInternalServerError, "ResourceNotFoundException": http.StatusNotFound,
		"ServiceQuotaExceededException": http.StatusPaymentRequired,
	}[e.code]
	if !ok {
		status = http.StatusBadRequest
	}
	body := map[string]string{"Message": e.message}
	if e.reason != "" {
		body["Reason"] = e.reason
	}
	return answer{status: status, header: map[string]string{"X-Amzn-Errortype": e.code}, body: body}
}
