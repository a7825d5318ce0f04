package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Substatus codes of the protocol.
const (
	subPartitionKeyMismatch = 1001 // with 400
	subCrossPartition       = 1004 // with 400: the client has to merge partitions
	subRecreated            = 1024 // with 400: the container is another one than the client means
	subReadSession          = 1002 // with 404: the session token is ahead
	subWriteForbidden       = 3    // with 403: the region serves only reads
	subEntraForbidden       = 5300 // with 403: Entra ID tokens may not do this
	subPartitionFull        = 1014 // with 403: the logical partition is full
	subOwnerNotFound        = 1003 // with 404: the database or container is missing
	subRangeGone            = 1002 // with 410: the partition key range was split
	subResponseFull         = 3402 // with 413: the batch response is full
	subThroughput           = 3200 // with 429: request units are used up
)

// apiError is an error response of the protocol.
type apiError struct {
	status    int
	substatus int
	code      string
	message   string
	charge    float64
	extra     string        // additionalErrorInfo, if any: JSON
	wait      time.Duration // x-ms-retry-after-ms, if any
}

func (e *apiError) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: "BadRequest", message: fmt.Sprintf(format, args...), charge: chargeBadRequest}
}

// invalidHeader refuses the value of a header with this canonical name.
func invalidHeader(name, value string) *apiError {
	return badRequest("The value '%s' specified for the header '%s' is invalid.", value, strings.ToLower(name))
}

func partitionKeyMismatch(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, substatus: subPartitionKeyMismatch, code: "BadRequest", message: message, charge: chargeBadRequest}
}

// recreated reports that the container has the name, but not the resource id that the client knows.
func recreated(rid string) *apiError {
	return &apiError{status: http.StatusBadRequest, substatus: subRecreated, code: "BadRequest", charge: chargeMetadata,
		message: fmt.Sprintf("The container with the resource id '%s' does not exist: it may have been recreated.", rid)}
}

func unauthorized(token string) *apiError {
	message := "The input authorization token can't serve the request. " +
		"The wrong key is being used or the expected payload is not built as per the protocol."
	if strings.HasPrefix(token, "type=resource&") || strings.HasPrefix(token, "type%3Dresource%26") {
		message = "Resource tokens are not supported."
	}
	return &apiError{status: http.StatusUnauthorized, code: "Unauthorized", message: message}
}

func itemNotFound() *apiError {
	return &apiError{status: http.StatusNotFound, code: "NotFound", message: "Entity with the specified id does not exist in the system.", charge: chargeNotFound}
}

func ownerNotFound() *apiError {
	return &apiError{status: http.StatusNotFound, substatus: subOwnerNotFound, code: "NotFound", message: "Owner resource does not exist", charge: chargeMetadata}
}

func resourceNotFound() *apiError {
	return &apiError{status: http.StatusNotFound, code: "NotFound", message: "Resource Not Found.", charge: chargeMetadata}
}

func sessionNotAvailable() *apiError {
	return &apiError{status: http.StatusNotFound, substatus: subReadSession, code: "NotFound", message: "The read session is not available for the input session token.", charge: chargeNotFound}
}

func methodNotAllowed() *apiError {
	return &apiError{status: http.StatusMethodNotAllowed, code: "MethodNotAllowed", message: "The requested verb is not supported."}
}

func conflict() *apiError {
	return &apiError{status: http.StatusConflict, code: "Conflict", message: "Entity with the specified id already exists in the system.", charge: chargeConflict}
}

func uniqueViolation() *apiError {
	return &apiError{status: http.StatusConflict, code: "Conflict", message: "Unique index constraint violation.", charge: chargeConflict}
}

func partitionFull() *apiError {
	return &apiError{status: http.StatusForbidden, substatus: subPartitionFull, code: "Forbidden", charge: chargeBadRequest,
		message: "Partition key reached maximum size of 20 GB. Learn more: https://aka.ms/CosmosDB/sql/errors/full-pk"}
}

func writeForbidden() *apiError {
	return &apiError{status: http.StatusForbidden, substatus: subWriteForbidden, code: "Forbidden",
		message: "The requested operation cannot be performed at this region"}
}

func entraForbidden(method, resourceType string) *apiError {
	return &apiError{status: http.StatusForbidden, substatus: subEntraForbidden, code: "Forbidden",
		message: fmt.Sprintf("Request blocked by Auth: The given request [%s /%s] cannot be authorized by AAD token in data plane. "+
			"Learn more: https://aka.ms/cosmos-native-rbac.", method, resourceType)}
}

func rangeGone() *apiError {
	return &apiError{status: http.StatusGone, substatus: subRangeGone, code: "Gone", message: "The requested resource is no longer available at the server."}
}

func preconditionFailed() *apiError {
	return &apiError{status: http.StatusPreconditionFailed, code: "PreconditionFailed", message: "Operation cannot be performed because one of the specified precondition is not met.", charge: chargePrecondition}
}

func tooLarge() *apiError {
	return &apiError{status: http.StatusRequestEntityTooLarge, code: "RequestEntityTooLarge", message: "Request size is too large", charge: chargeBadRequest}
}

// batchResponseFull reports that an item would make the response of a batch too large: the client has
// to read it separately.
func batchResponseFull() *apiError {
	return &apiError{status: http.StatusRequestEntityTooLarge, substatus: subResponseFull, code: "RequestEntityTooLarge", message: "The response of the batch is too large", charge: chargeBadRequest}
}

func tooManyRequests(wait time.Duration) *apiError {
	return &apiError{status: http.StatusTooManyRequests, substatus: subThroughput, code: "TooManyRequests", charge: chargeThrottled, wait: wait,
		message: "The request rate is too large. Please retry after sometime."}
}

// statusRetryWith is a status code of Cosmos DB.
const statusRetryWith = 449

func retryWith() *apiError {
	return &apiError{status: statusRetryWith, code: "RetryWith", message: "Conflicting request to resource has been attempted. Retry to avoid conflicts."}
}

func unavailable(message string) *apiError {
	return &apiError{status: http.StatusServiceUnavailable, code: "ServiceUnavailable", message: message}
}

// body formats the error as the service does.
func (e *apiError) body() []byte {
	b, err := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Extra   string `json:"additionalErrorInfo,omitempty"`
	}{e.code, e.message, e.extra})
	if err != nil {
		return []byte(`{"code":"InternalServerError","message":""}`)
	}
	return b
}
