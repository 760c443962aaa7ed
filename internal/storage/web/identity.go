package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Validator is what headers say of a file's version, as pb.File.etag has it: a strong ETag with its quotes, or what
// object.IsWeak reports.
func Validator(h http.Header) (string, error) {
	if tag := h.Get("ETag"); tag != "" {
		return tag, nil
	}
	if at := h.Get("Last-Modified"); at != "" {
		return object.LastModified + at, nil
	}
	return "", errors.New("the server gives neither an ETag nor a Last-Modified, without which changes could not be " +
		"noticed; copy the file to a server that does, to a disk or to S3")
}

// Conditions have a server refuse a version other than one, as far as it can.
func Conditions(validator string) http.Header {
	h := http.Header{}
	switch at, byTime := strings.CutPrefix(validator, object.LastModified); {
	case byTime:
		h.Set("If-Unmodified-Since", at)
	case !object.IsWeak(validator): // no condition is met by a weak one
		h.Set("If-Match", validator)
	}
	return h
}

// Same refuses an answer that is not of one version.
func Same(validator string) func(*http.Response) error {
	return func(resp *http.Response) error {
		found, err := Validator(resp.Header)
		if err == nil && found != validator {
			err = fmt.Errorf("%w: its version is %.200q by now, and was %.200q", object.ErrChanged, found, validator)
		}
		return err
	}
}
