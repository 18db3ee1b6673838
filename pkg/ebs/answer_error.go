package ebs

import (
	"errors"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/failure"
)

// answerError is the useful part of an SDK error: code, message and the request id that AWS Support asks for. The SDK's
// own text repeats the operation and the transport.
type answerError struct {
	text string
	err  error
}

// Error is "Code: message (request id)", or the transport's error.
func (e *answerError) Error() string { return e.text }

// Unwrap returns the SDK's error.
func (e *answerError) Unwrap() error { return e.err }

func concise(err error) error {
	var known *failure.Error
	if errors.As(err, &known) {
		return err
	}
	var (
		api      smithy.APIError
		response *awshttp.ResponseError
		op       *smithy.OperationError
	)
	hasResponse := errors.As(err, &response)
	switch {
	case errors.As(err, &api):
		text := api.ErrorCode() + ": " + api.ErrorMessage()
		if hasResponse && response.ServiceRequestID() != "" {
			text += " (request " + response.ServiceRequestID() + ")"
		}
		return &answerError{text: text, err: err}
	case hasResponse && response.Err != nil:
		return &answerError{text: response.Err.Error(), err: err}
	case errors.As(err, &op) && op.Err != nil:
		return &answerError{text: op.Err.Error(), err: err}
	default:
		return err
	}
}
