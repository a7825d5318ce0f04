package graph

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sync/semaphore"
)

const (
	maxBody   = 1 << 20  // bytes of a body, or of a message
	smallBody = 16 << 10 // bytes; up to which there may be any number

	smallAnswer = 128 << 10 // bytes, likewise; pages of the usual length are small
)

// largeBodies and largeAnswers are how many bytes those that are not small have together,
// variables so that a test need not send as many.
var largeBodies, largeAnswers int64 = 64 << 20, 256 << 20

// bodies bounds what is kept of requests and messages that have not arrived in full,
// or not been read, and of answers that have not been taken: connections are many, and a
// body takes a while if its client wants.
type bodies struct{ large, answers *semaphore.Weighted }

func newBodies() *bodies {
	return &bodies{semaphore.NewWeighted(largeBodies), semaphore.NewWeighted(largeAnswers)}
}

var (
	errTooManyBodies  = &refusal{code: unavailable, message: "too many large requests in progress; try again later", retryAfter: defaultRetryAfter}
	errTooManyAnswers = &refusal{code: unavailable, message: "too many large responses in progress; request less data, or try again later", retryAfter: defaultRetryAfter}
)

// holdAnswer makes room for an answer of so many bytes, until taken is called, and has note
// taken of it if there is. That of a mutation, which has been made, is never refused.
func (b *bodies) holdAnswer(asker *request, size int, mutation bool) (taken func(), err error) {
	n, taken := int64(size), func() {}
	switch {
	case n < smallAnswer:
	case b.answers.TryAcquire(n):
		taken = func() { b.answers.Release(n) }
	case !mutation:
		err = errTooManyAnswers
	}
	if asker.given != nil && err == nil {
		asker.given()
	}
	asker.given = nil
	return taken, err
}

// readAll reads what has size bytes, -1 if that is not known. done is to be called when
// they are no longer needed.
func (b *bodies) readAll(r io.Reader, size int64) (body []byte, done func(), err error) {
	if size >= 0 && size < smallBody {
		body = make([]byte, size)
		_, err = io.ReadFull(r, body)
		return body, func() {}, err
	}
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(size, 0)+bytes.MinRead, smallBody)))
	if _, err := buffer.ReadFrom(io.LimitReader(r, smallBody)); err != nil {
		return nil, nil, err
	}
	if buffer.Len() < smallBody {
		return buffer.Bytes(), func() {}, nil
	}
	if !b.large.TryAcquire(maxBody) {
		return nil, nil, errTooManyBodies
	}
	done = func() { b.large.Release(maxBody) }
	if _, err := buffer.ReadFrom(r); err != nil {
		done()
		return nil, nil, err
	}
	return buffer.Bytes(), done, nil
}

// read reads the body of a POST.
func (b *bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := parameters["charset"]; err != nil || media != mediaJSON || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return nil, nil, &httpError{status: http.StatusUnsupportedMediaType, err: refuse("", "the Content-Type must be %s, in UTF-8", mediaJSON)}
	}
	if r.ContentLength > maxBody {
		return nil, nil, tooLarge()
	}
	body, done, err = b.readAll(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	switch {
	case err == nil:
		return body, done, nil
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, nil, tooLarge()
	case errors.Is(err, errTooManyBodies):
		w.Header().Set("Connection", "close") // rather than read what is left of it
		return nil, nil, &httpError{status: http.StatusServiceUnavailable, err: err}
	case errors.Is(err, os.ErrDeadlineExceeded): // the server's
		return nil, nil, &httpError{status: http.StatusRequestTimeout, err: refuse("", "the request body took too long to arrive")}
	}
	return nil, nil, badRequest("", "the body did not arrive")
}

func tooLarge() error {
	return &httpError{status: http.StatusRequestEntityTooLarge, err: refuse("", "the request body must have at most %d bytes", maxBody)}
}
