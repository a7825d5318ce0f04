package document

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

const (
	PersistedBytes = 4 << 20  // of all documents that are registered by hash
	MaxPersisted   = 64 << 10 // of one document, so that a few do not evict all others
)

const (
	PersistedKey  = "persistedQuery" // of the extension
	documentIDKey = "documentId"     // of the extension that SetID adds

	persistedField = "extensions." + PersistedKey
	hashField      = persistedField + ".sha256Hash"
)

// messagePersistedNotFound is the message after which clients send the text.
const messagePersistedNotFound = "PersistedQueryNotFound"

// documentID is the id of the document that a request names. It is passed in the
// parameters' extensions, where values from clients never have this type.
type documentID string

// SetID records the id of the document that a request names; "" is no id.
func SetID(params *graphql.RawParams, id string) {
	if id == "" {
		return
	}
	if params.Extensions == nil {
		params.Extensions = map[string]any{}
	}
	params.Extensions[documentIDKey] = documentID(id)
}

// Present reports whether a request has a document: its text, hash or id.
func Present(params *graphql.RawParams) bool {
	_, named := params.Extensions[documentIDKey].(documentID)
	return named || params.Query != "" || params.Extensions[PersistedKey] != nil
}

// persistedOperations finds the text of a document by its hash or id. If there are trusted documents
// it refuses all others.
type persistedOperations struct {
	registered *byteCache[string] // Documents.persisted
	known      *Trusted           // Options.Known; may be nil
	trusted    *Trusted           // nil: all documents are executed
}

var _ graphql.OperationParameterMutator = persistedOperations{}

func (persistedOperations) ExtensionName() string                   { return "PersistedOperations" }
func (persistedOperations) Validate(graphql.ExecutableSchema) error { return nil }

func (p persistedOperations) MutateOperationParameters(_ context.Context, params *graphql.RawParams) *gqlerror.Error {
	if err := p.find(params); err != nil {
		return gqlerror.Wrap(err)
	}
	return nil
}

func (p persistedOperations) find(params *graphql.RawParams) error {
	hash, err := persistedHash(params.Extensions)
	if err != nil {
		return err
	}
	id, _ := params.Extensions[documentIDKey].(documentID)
	name := cmp.Or(string(id), hash)
	if p.known != nil && params.Query == "" {
		if text, ok := p.known.byID[name]; ok {
			params.Query = text
			return nil
		}
	}
	if p.trusted != nil {
		return p.trusted.find(name, params)
	}
	if params.Query == "" {
		text, ok := p.registered.get(hash)
		if !ok {
			return &refusal.Error{Code: refusal.PersistedNotFound, Message: messagePersistedNotFound}
		}
		params.Query = text
	} else if hash != "" && hash != Hash(params.Query) {
		return refusal.Input(hashField, blog.ReasonMismatch, "does not match the SHA-256 of the query")
	}
	return nil
}

// persistedHash returns the hash in the extension persistedQuery, "" without the extension.
func persistedHash(extensions map[string]any) (string, error) {
	value := extensions[PersistedKey]
	if value == nil {
		return "", nil
	}
	extension, ok := value.(map[string]any)
	if !ok {
		return "", refusal.Input(persistedField, blog.ReasonType, "must be an object")
	}
	if version, _ := extension["version"].(int64); version != 1 {
		return "", refusal.Input(persistedField+".version", blog.ReasonRange, "must be 1")
	}
	hash, _ := extension["sha256Hash"].(string)
	if hash == "" {
		return "", refusal.Input(hashField, blog.ReasonBlank, "must be a non-empty string")
	}
	return hash, nil
}

// Hash returns the SHA-256 of a document, in hexadecimal.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// registerPersisted registers documents that are sent with their hash, once they have
// passed every check: it must be the last extension.
type registerPersisted struct{ known *byteCache[string] }

var _ graphql.OperationContextMutator = registerPersisted{}

func (registerPersisted) ExtensionName() string                   { return "RegisterPersisted" }
func (registerPersisted) Validate(graphql.ExecutableSchema) error { return nil }

func (r registerPersisted) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	hash, err := persistedHash(op.Extensions) // find has compared it with the text
	if err == nil && hash != "" && len(op.RawQuery) <= MaxPersisted {
		r.known.add(hash, op.RawQuery, len(op.RawQuery))
	}
	return nil
}
