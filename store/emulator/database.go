package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"byline/store/emulator/internal/apierror"
	"byline/store/emulator/internal/charge"
	"byline/store/emulator/internal/layout"
)

// databases serves /dbs: create, query and list.
func (e *Engine) databases(q *request) (*response, error) {
	switch {
	case q.method == http.MethodPost && isQuery(q):
		return e.queryMetadata(q, "Databases", "", e.databaseBodies())
	case q.method == http.MethodPost:
		return e.createDatabase(q)
	case q.method == http.MethodGet:
		return listResponse("Databases", "", e.databaseBodies()), nil
	}
	return nil, apierror.MethodNotAllowed()
}

func (e *Engine) databaseBodies() [][]byte {
	var all [][]byte
	for _, d := range sortedByNo(e.catalog.Load().databases, func(d *database) uint32 { return d.No }) {
		all = append(all, d.body)
	}
	return all
}

func (e *Engine) createDatabase(q *request) (*response, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(q.body, &in); err != nil {
		return nil, apierror.BadRequest("The request payload is invalid. Ensure to provide a valid request payload.")
	}
	if err := checkSupported("database", bytes.TrimSpace(q.body), "id"); err != nil {
		return nil, err
	}
	if err := checkResourceID(in.ID); err != nil {
		return nil, err
	}
	content, err := offerFromHeaders(q)
	if err != nil {
		return nil, err
	}
	var made *database
	err = e.changeMeta(q.ctx, func(m *metaChange) error {
		if m.cat.databases[in.ID] != nil {
			return &apierror.Error{Status: 409, Code: "Conflict", Message: "Database with specified id or name already exists.", Charge: charge.Metadata}
		}
		no, ts := m.number(), e.o.Clock().Unix()
		made = databaseRecord{No: no, ID: in.ID, ETag: quoteETag(layout.FormatETag(0, uint64(no), 0, ts)), Timestamp: ts}.open()
		m.cat.databases[in.ID] = made
		if content != nil {
			if err := m.addOffer(made.rid, "dbs/"+made.rid+"/", content, ts); err != nil {
				return err
			}
		}
		return m.set(layout.MetaDatabase, no, made.databaseRecord)
	})
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusCreated, body: made.body, etag: made.ETag, charge: charge.Metadata}, nil
}

// database serves /dbs/{db}: read and delete.
func (e *Engine) database(q *request) (*response, error) {
	id := q.segments[1]
	switch q.method {
	case http.MethodGet:
		d := e.catalog.Load().databases[id]
		if d == nil {
			return nil, apierror.ResourceNotFound()
		}
		if q.notModified(d.ETag) {
			return &response{status: http.StatusNotModified, etag: d.ETag, charge: charge.Metadata}, nil
		}
		return &response{status: http.StatusOK, body: d.body, etag: d.ETag, charge: charge.Metadata}, nil
	case http.MethodDelete:
		err := e.changeMeta(q.ctx, func(m *metaChange) error {
			d := m.cat.databases[id]
			if d == nil {
				return apierror.ResourceNotFound()
			}
			if err := checkIfMatch(q.get("If-Match"), d.ETag); err != nil {
				return err
			}
			for _, c := range d.containers {
				if err := m.dropContainer(c); err != nil {
					return err
				}
			}
			delete(m.cat.databases, id)
			if err := m.dropOffer(d.rid); err != nil {
				return err
			}
			return m.remove(layout.MetaDatabase, d.No)
		})
		if err != nil {
			return nil, err
		}
		return &response{status: http.StatusNoContent, charge: charge.Metadata}, nil
	}
	return nil, apierror.MethodNotAllowed()
}

// checkResourceID validates the name of a database or container. encoding/json has replaced invalid
// Unicode by U+FFFD, so names with U+FFFD are refused.
func checkResourceID(id string) error {
	switch {
	case id == "":
		return apierror.BadRequest("The input content is invalid because the required properties - 'id; ' - are missing.")
	case utf8.RuneCountInString(id) > 255 || strings.ContainsAny(id, "/\\?#\uFFFD") || strings.ContainsFunc(id, unicode.IsControl) || strings.HasSuffix(id, " "):
		return apierror.BadRequest("The input name '%s' is invalid. Ensure to provide a unique non-empty string less than '255' characters.", id)
	}
	return nil
}

func quoteETag(tag string) string { return `"` + tag + `"` }
