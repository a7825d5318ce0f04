package document

import (
	"cmp"

	"github.com/99designs/gqlgen/graphql"
)

// ReadParams decodes the JSON parameters of an operation.
func ReadParams(text string, params *graphql.RawParams) error {
	var body struct {
		Query         string `json:"query"`
		OperationName string `json:"operationName"`
		Variables     Object `json:"variables"`
		Extensions    Object `json:"extensions"`
		DocumentID    string `json:"documentId"`
		DocID         string `json:"doc_id"` // Relay's name for it
	}
	if err := Decode(text, &body); err != nil {
		return err
	}
	params.Query, params.OperationName = body.Query, body.OperationName
	params.Variables, params.Extensions = body.Variables, body.Extensions
	SetID(params, cmp.Or(body.DocumentID, body.DocID))
	return nil
}
