package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

// Trusted is an allowlist of documents. It is immutable and safe for concurrent use.
type Trusted struct {
	byID  map[string]string // texts by the manifest's id, by SHA-256, and by SHA-256 with the prefix sha256:
	texts map[string]bool
}

const apolloManifest = "apollo-persisted-query-manifest"

// ParseTrusted parses a manifest: a JSON object of documents by their ids, as
// Relay and graphql-codegen write it, or Apollo's "apollo-persisted-query-manifest".
// All documents must be valid; an error names the first invalid one.
func ParseTrusted(manifest []byte, schema *ast.Schema) (*Trusted, error) {
	documents, err := parseManifest(manifest)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 {
		return nil, errors.New("the manifest has no documents")
	}
	return NewTrusted(documents, schema)
}

// NewTrusted returns an allowlist of documents by their ids. All must be valid; an error names the first invalid one.
func NewTrusted(documents map[string]string, schema *ast.Schema) (*Trusted, error) {
	d := &Trusted{byID: map[string]string{}, texts: map[string]bool{}}
	for _, id := range slices.Sorted(maps.Keys(documents)) {
		text := documents[id]
		if _, err := Parse(schema, text); err != nil {
			return nil, trustedError(id, err)
		}
		hash := Hash(text)
		d.byID[hash], d.byID["sha256:"+hash], d.texts[text] = text, text, true
	}
	maps.Copy(d.byID, documents) // an id takes precedence over the hash of another document
	return d, nil
}

// parseManifest returns the documents by their ids.
func parseManifest(manifest []byte) (map[string]string, error) {
	if err := checkText(string(manifest)); err != nil {
		return nil, fmt.Errorf("the manifest is not text: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &members); err != nil {
		return nil, fmt.Errorf("the manifest is not a JSON object: %w", err)
	}
	documents := map[string]string{}
	add := func(id, text string) error {
		if previous, taken := documents[id]; id == "" || taken && previous != text {
			return fmt.Errorf("document %q: the id is empty, or that of two documents", id)
		}
		documents[id] = text
		return nil
	}
	var format string
	if json.Unmarshal(members["format"], &format) == nil && format == apolloManifest {
		var apollo struct {
			Version    int
			Operations []struct{ ID, Body string }
		}
		if err := json.Unmarshal(manifest, &apollo); err != nil {
			return nil, fmt.Errorf("not a manifest of the format %s: %w", apolloManifest, err)
		}
		if apollo.Version != 1 {
			return nil, fmt.Errorf("version %d of the format %s is not known", apollo.Version, apolloManifest)
		}
		for _, operation := range apollo.Operations {
			if err := add(operation.ID, operation.Body); err != nil {
				return nil, err
			}
		}
		return documents, nil
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		var text *string
		if err := json.Unmarshal(members[id], &text); err != nil || text == nil {
			return nil, fmt.Errorf("document %q: not a text", id)
		}
		if err := add(id, *text); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

func trustedError(id string, err error) error {
	var at *gqlerror.Error
	if errors.As(err, &at) && len(at.Locations) > 0 {
		return fmt.Errorf("document %q, line %d, column %d: %s", id, at.Locations[0].Line, at.Locations[0].Column,
			refusal.Cause(err))
	}
	return fmt.Errorf("document %q: %s", id, refusal.Cause(err))
}

// find sets the text of the document that a request names by its id or hash. Without one, it
// accepts a text that is trusted. id may be "".
func (d *Trusted) find(id string, params *graphql.RawParams) error {
	text, known := d.byID[id]
	switch {
	case known && params.Query != "" && params.Query != text:
		return refusal.Input("query", blog.ReasonMismatch, "does not match the document with this id")
	case known:
		params.Query = text
	case params.Query == "":
		return &refusal.Error{Code: refusal.PersistedNotFound, Message: messagePersistedNotFound}
	case !d.texts[params.Query]:
		return &refusal.Error{Code: refusal.Forbidden, Reason: blog.ReasonUntrusted,
			Message: "this server executes only trusted documents, and this is not one of them"}
	}
	return nil
}
